from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import ParametersDrawn
from gradlint.finding import Effect, Severity
from gradlint.intents import Replace, unsafe
from gradlint.rule import Rule, Violation, on, places


class ExhaustedParameters(Rule):
    """An iterator of parameters is used again when it has come to its end, and gives nothing.

    ## What it does
    Finds a second use of what `model.parameters()`, `named_parameters()`, `filter` or `itertools.chain` over them, or a
    generator gave, after a first use has gone through all of it: an optimizer, gradient clipping, a loop, `list()`.

    ## Why is this bad
    `parameters()` returns an iterator, and an iterator gives each item once. An optimizer goes through all of it, and
    what is handed to `clip_grad_norm_` afterwards is empty: no gradient is ever clipped. A loop over it has no
    iterations, a sum is zero, and nothing raises but an optimizer that is given no parameters at all.

    ## Example
    ```python
    parameters = model.parameters()
    sgd = torch.optim.SGD(parameters, lr=0.1)
    criterion(model(x), y).backward()
    torch.nn.utils.clip_grad_norm_(parameters, 1.0)
    sgd.step()
    ```

    ## Use instead
    ```python
    parameters = list(model.parameters())
    sgd = torch.optim.SGD(parameters, lr=0.1)
    criterion(model(x), y).backward()
    torch.nn.utils.clip_grad_norm_(parameters, 1.0)
    sgd.step()
    ```

    The fix is unsafe where the model is given other layers between: a list holds the parameters that there are when it
    is made, an iterator those that there are when it is used.

    ## At runtime
    The guard sees clipping and optimizers that are given an iterator which has come to its end: a generator, `filter`
    or `map`. It does not see loops.

    ## Stays silent on
    Lists; one use; a new iterator each time; an iterator of which a loop with `break` may have left some; `next()`.

    ## References
    - [torch.nn.Module.parameters](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.parameters)
    - [Iterators](https://docs.python.org/3/glossary.html#term-iterator)
    """

    code = "GL219"
    name = "exhausted-parameters"
    severity = Severity.ERROR
    effect = Effect.WRONG_RESULT
    fix = "unsafe"
    remedy = "keep a list of them: list(model.parameters())"

    @on(ParametersDrawn)
    def drawn(self, event: ParametersDrawn) -> Iterator[Violation]:
        if not event.used_up.is_true:
            return
        keep = Replace("node", "list({node})", "{node}", at=event.opened_at)
        yield Violation(
            f"{event.by} is given an iterator of parameters that has come to its end: there is nothing left in it",
            at=event.site,
            related=places(("all of it was used here", event.used_up_at), ("made here", event.opened_at)),
            mend=unsafe("keep the parameters in a list", keep) if event.opened_at is not None else None,
        )
