from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import OutputMeasured
from gradlint.finding import Effect, Severity
from gradlint.intents import Decorate, unsafe
from gradlint.rule import Rule, Violation, on, places

_EVALUATES = (".eval(", "def eval", "def valid", "def test", "def predict")
_TRAINS = ("backward", ".grad", ".train(", "autograd", "requires_grad", ".step(")
# A function that says nothing of an evaluation may serve the training as well.
_UNRECORDED = Decorate("@{torch}.no_grad()", without=_TRAINS, having=_EVALUATES)


class EvalWithoutNoGrad(Rule):
    """An evaluation builds graphs that `backward()` never uses.

    ## What it does
    Finds calls of a model, with gradients enabled, whose output is only measured, shown or saved: turned into numbers,
    labels or images. No backward pass reaches it. The model is in evaluation mode, or it was trained before, in the
    same program or in that which wrote the file of its weights: then the use of the output tells that it is evaluated,
    also where training and evaluation share the code (`for phase in ("train", "val")`). Of several in a function the
    first is reported, or the first in each of its loops.

    ## Why is this bad
    Every operation saves what a backward pass would need, and none comes. `eval()` does not prevent that: it only
    changes what dropout and batch normalization do. Evaluation takes more memory, and more time, than it needs.

    ## Example
    ```python
    model.eval()
    for x, y in loader:
        print((model(x).argmax(1) == y).sum().item())
    ```

    ## Use instead
    ```python
    model.eval()
    with torch.no_grad():
        for x, y in loader:
            print((model(x).argmax(1) == y).sum().item())
    ```

    ## At runtime
    The guard reports a call in evaluation mode after which the graph of the output is freed without a backward pass, at
    least twice and each time. It does not look at what is done with the output, and at no calls in training mode.

    ## Stays silent on
    Evaluations under `torch.no_grad()` or `torch.inference_mode()`, of a caller or a decorator as well;
    `set_grad_enabled(phase == "train")`; attacks and saliency maps, which run backward through the graph; outputs that
    are returned with their graph to code that is not followed. In training mode also: measures of what is trained by;
    outputs that are learnt from as targets, labels or numbers; actions of an agent; models that nothing has trained; a
    single call outside of loops.

    ## References
    - [torch.no_grad](https://docs.pytorch.org/docs/stable/generated/torch.no_grad.html)
    - [Evaluation mode](https://docs.pytorch.org/docs/stable/notes/autograd.html#evaluation-mode-nn-module-eval)
    """

    code = "GL406"
    name = "eval-without-no-grad"
    severity = Severity.WARNING
    effect = Effect.WASTES
    fix = "unsafe"
    once_for_a_cause = True
    loops_apart = True
    remedy = "evaluate under torch.no_grad() or torch.inference_mode()"

    @on(OutputMeasured)
    def measured(self, event: OutputMeasured) -> Iterator[Violation]:
        if event.single or not event.grad_enabled.is_true or not (event.training.is_false or event.trained.is_true):
            return
        in_evaluation = event.training.is_false
        yield Violation(
            "this evaluation builds graphs that backward() never uses: gradients are enabled",
            at=event.site,
            related=places(
                ("the model was put into evaluation mode here", event.set_at if in_evaluation else None),
                ("the model itself is called here", event.called_at),
            ),
            cause=event.within,
            mend=unsafe("record no gradients in this function", _UNRECORDED),
        )
