from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import DataWritten, SavedTensorChanged
from gradlint.finding import Effect, Severity
from gradlint.intents import ChangeItself, unsafe
from gradlint.rule import Rule, Violation, on, places


class DataMutation(Rule):
    """A tensor that is part of a graph is changed through `.data`.

    ## What it does
    Finds in-place changes of `.data`, assignments to it, and changes through another name for it, where the
    tensor requires grad and is not a parameter, or where a graph that a backward pass still needs has saved it.

    ## Why is this bad
    `.data` shares memory with the tensor but not its version counter. Where the backward pass needs the old
    values it silently uses the new ones, and every gradient behind them is wrong.

    ## Example
    ```python
    logits = model(x)
    logits.data.clamp_(-5, 5)
    loss = criterion(logits, y)
    loss.backward()
    ```

    ## Use instead
    ```python
    logits = model(x)
    logits = logits.clamp(-5, 5)
    loss = criterion(logits, y)
    loss.backward()
    ```

    ## At runtime
    PyTorch raises nothing: the version counter that would notice the change does not see it. The guard looks for
    weights that change through `.data` between a forward pass and the backward pass that needs them. With `exact=True`
    it compares what was saved with what the backward pass uses, and so finds changes by any means: `.data`,
    numpy, extensions.

    ## Stays silent on
    Attributes merely named `data` (datasets, graph batches, packed sequences, numpy arrays, configurations);
    `.data` that is only read; a copy (`.data.clone()`) that is changed; new tensors made with `.data.new(…)`; leaves
    that are filled before anything is computed from them; values of which nothing else is left; parameters and other
    leaves that are trained or kept by a module, which parameter-data-mutation reports.

    ## References
    - [In-place correctness checks](https://docs.pytorch.org/docs/stable/notes/autograd.html#in-place-correctness-checks)
    """

    code = "GL101"
    name = "data-mutation"
    severity = Severity.ERROR
    effect = Effect.WRONG_RESULT
    fix = "unsafe"
    remedy = "compute a new tensor, or change this one under torch.no_grad(), where autograd checks it"
    supersedes = ("GL110", "GL102")

    @on(DataWritten)
    def changed(self, event: DataWritten) -> Iterator[Violation]:
        tensor = event.tensor
        if not tensor.requires_grad.is_true or not tensor.is_parameter.is_false:
            return
        header = "" if event.grad_enabled.is_false else "with {torch}.no_grad():"
        yield Violation(
            f"{tensor.named('a tensor of the graph')} is changed through .data: autograd does not notice",
            at=event.site,
            related=places(
                (".data was taken here", event.taken_before),
                ("the tensor was made here", tensor.made_at),
                ("derived here, so it does require grad", event.derived_at),
            ),
            cause=event.taken_at or event.site,
            mend=unsafe("change it where autograd checks it", ChangeItself(header)),
        )

    @on(SavedTensorChanged)
    def corrupted(self, event: SavedTensorChanged) -> Iterator[Violation]:
        if not event.noticed.is_false or event.stepped_at is not None:
            return
        needed = f" by {event.operation}" if event.operation else ""
        yield Violation(
            f"values saved for this backward pass{needed} were changed without autograd noticing: "
            "its gradients are wrong",
            at=event.changed_at or event.site,
            related=places(("they were saved here", event.saved_at)),
        )
