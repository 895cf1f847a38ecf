from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import NumberTaken
from gradlint.finding import Effect, Severity
from gradlint.rule import Rule, Violation, on, places


class ItemOnMany(Rule):
    """`.item()` is called on a tensor with several elements.

    ## What it does
    Finds `.item()` on tensors known to have more than one element: losses made with `reduction="none"`, tensors
    created with a known shape and what was computed from them.

    ## Why is this bad
    It raises, unless the batch happens to have one element.

    ## Example
    ```python
    losses = nn.CrossEntropyLoss(reduction="none")(model(x), y)
    print(losses.item())
    ```

    ## Use instead
    ```python
    losses = nn.CrossEntropyLoss(reduction="none")(model(x), y)
    print(losses.mean().item(), losses.tolist())
    ```

    ## At runtime
    PyTorch raises `RuntimeError: a Tensor with 4 elements cannot be converted to Scalar`.

    ## Stays silent on
    Tensors of one element, and of unknown size; one value per sample of a batch whose size is not known, such as
    `output.argmax(1)`: the batch may be a single image.

    ## References
    - [torch.Tensor.item](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.item.html)
    """

    code = "GL506"
    name = "item-on-many"
    severity = Severity.WARNING
    effect = Effect.RAISES
    remedy = "reduce it first, or use .tolist()"

    @on(NumberTaken)
    def taken(self, event: NumberTaken) -> Iterator[Violation]:
        if not event.tensor.scalar.is_false:
            return
        yield Violation(
            f".item() of {event.tensor.named('a tensor')} with several elements raises",
            at=event.site,
            related=places(("it was computed here", event.tensor.made_at)),
        )
