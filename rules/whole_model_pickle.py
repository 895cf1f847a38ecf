from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Loaded, ModuleLoaded, Saved
from gradlint.finding import Effect, Severity
from gradlint.rule import Rule, Violation, on


class WholeModelPickle(Rule):
    """A whole model is pickled, or a file from elsewhere is unpickled.

    ## What it does
    Finds `torch.save` of a module, alone or in a dict; `torch.load` of a file that holds one, as what it gives is
    called, put into a mode or asked for its parameters; and `torch.load(…, weights_only=False)` of a path that comes
    from a download or from the command line.

    ## Why is this bad
    A pickled module needs its class under the same name and in the same place when it is loaded, and `torch.load`
    refuses it by default since PyTorch 2.6. Loading without `weights_only` runs whatever code the file holds.

    ## Example
    ```python
    torch.save(model, "model.pt")
    ```

    ## Use instead
    ```python
    torch.save(model.state_dict(), "model.pt")
    ```

    ## Stays silent on
    State dicts, tensors and numbers; files that the same code has saved; paths that cannot be followed.

    ## References
    - [Saving and loading models](https://docs.pytorch.org/tutorials/beginner/saving_loading_models.html)
    - [torch.load](https://docs.pytorch.org/docs/stable/generated/torch.load.html)
    """

    code = "GL903"
    name = "whole-model-pickle"
    severity = Severity.STYLE
    effect = Effect.RAISES
    fix = None
    remedy = "save and load the state_dict()"

    @on(Saved)
    def saved(self, event: Saved) -> Iterator[Violation]:
        if event.module.is_true:
            yield Violation("the whole module is pickled: torch.load refuses it by default", at=event.site)

    @on(Loaded)
    def loaded(self, event: Loaded) -> Iterator[Violation]:
        if event.weights_only.is_false and event.foreign.is_true:
            yield Violation(
                "weights_only=False runs the code in a file that comes from elsewhere",
                at=event.site,
                remedy="leave weights_only at its default, True",
            )

    @on(ModuleLoaded)
    def module_loaded(self, event: ModuleLoaded) -> Iterator[Violation]:
        if not event.weights_only.known:
            yield Violation("the file holds a whole module: torch.load refuses it by default", at=event.site)
