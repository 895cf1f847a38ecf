from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import StateDictReused
from gradlint.finding import Effect, Severity
from gradlint.intents import Replace, unsafe
from gradlint.rule import Rule, Violation, on, places

_COPIED = "{name: value.clone() for name, value in {node}.items()}"


class StateDictAlias(Rule):
    """A state dict is kept as the best one while later steps change it, and then loaded or saved.

    ## What it does
    Finds what `model.state_dict()` gave that is loaded into the model again after an optimizer step, or another
    `load_state_dict`, has changed the model. Where it was taken on a condition (`if loss < best:`), saving it later, or
    loading it into another model, is told as well.

    ## Why is this bad
    The tensors of a state dict are no copies: they share the memory of the parameters, and each step changes them, too.
    What was kept as the best model is the latest one at all times. Loading it back changes nothing, and early stopping,
    or a trial that is to begin at the same weights, goes on with the weights of the last step.

    ## Example
    ```python
    best, lowest = None, float("inf")
    for inputs, labels in loader:
        optimizer.zero_grad()
        loss = criterion(model(inputs), labels)
        loss.backward()
        optimizer.step()
        if loss.item() < lowest - 1.0:
            lowest = loss.item()
            best = model.state_dict()
    model.load_state_dict(best)
    ```

    ## Use instead
    ```python
    import copy

    best, lowest = None, float("inf")
    for inputs, labels in loader:
        optimizer.zero_grad()
        loss = criterion(model(inputs), labels)
        loss.backward()
        optimizer.step()
        if loss.item() < lowest - 1.0:
            lowest = loss.item()
            best = copy.deepcopy(model.state_dict())
    model.load_state_dict(best)
    ```

    The fix copies the tensors where the state dict is taken. It is unsafe, as that takes as much memory again.

    ## At runtime
    The guard remembers what `state_dict()` gave, and compares the version of its tensors when it is loaded or saved.

    ## Stays silent on
    Copies (`copy.deepcopy`, `clone`); what is saved or loaded at once; dicts whose items the program replaces, as an
    average of weights does; a state dict taken without a condition that is saved, or loaded into another model, later:
    it may be meant to show the latest weights.

    ## References
    - [Saving and loading models](https://docs.pytorch.org/tutorials/beginner/saving_loading_models.html)
    """

    code = "GL215"
    name = "state-dict-alias"
    severity = Severity.ERROR
    effect = Effect.WRONG_RESULT
    fix = "unsafe"
    remedy = "keep a copy: copy.deepcopy(model.state_dict())"

    @on(StateDictReused)
    def reused(self, event: StateDictReused) -> Iterator[Violation]:
        if not (event.own.is_true or event.chosen.is_true):
            return
        then = "loaded" if event.by == "load" else "saved"
        yield Violation(
            f"this state dict shares its memory with the model, which changes before it is {then}: "
            f"what is {then} are the latest weights, not those of now",
            at=event.site,
            related=places(("the model changes here", event.changed_at), (f"{then} here", event.used_at)),
            mend=unsafe("copy the weights", Replace("node", _COPIED, "{node}")),
        )
