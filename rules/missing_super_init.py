from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Event, SetsLayer, SuperCalled, SuperInit
from gradlint.finding import Effect, Severity
from gradlint.intents import DropArguments, InsertFirst, safe
from gradlint.protocol import Protocol, Token, Violating
from gradlint.rule import Rule, Violation, on


class MissingSuperInit(Rule):
    """A module sets a layer or parameter before `Module.__init__` has run.

    ## What it does
    Follows the building of each module: `super().__init__()` must have run before the first layer, parameter or
    buffer becomes an attribute. Also finds `super(OtherClass, self)`, where `self` is not an instance of that class.

    ## Why is this bad
    `nn.Module` keeps layers and parameters in tables that its `__init__` makes. Without them the first assignment
    raises, and the module can never be built.

    ## Example
    ```python
    class Head(nn.Module):
        def __init__(self, width):
            self.linear = nn.Linear(width, 3)

    head = Head(8)
    ```

    ## Use instead
    ```python
    class Head(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.linear = nn.Linear(width, 3)

    head = Head(8)
    ```

    ## At runtime
    PyTorch raises `AttributeError: cannot assign module before Module.__init__() call`; `super(OtherClass, self)`
    raises `TypeError`.

    ## Stays silent on
    Plain attributes set before the call; bases of the project that make the call, also through
    `Base.__init__(self)`; dataclasses that make it in `__post_init__`; mixins and other classes that are not modules;
    bases that cannot be followed.

    ## References
    - [torch.nn.Module](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html)
    """

    code = "GL402"
    name = "missing-super-init"
    severity = Severity.ERROR
    effect = Effect.RAISES
    fix = "safe"
    remedy = "call super().__init__() first in __init__"

    building = Protocol(
        {("bare", SuperInit): "ready", ("bare", SetsLayer): Violating("ready")},
        start="bare",
        arms=(),
    )

    @building.violated
    def story(self, _token: Token, event: Event) -> Violation:
        what = f"`self.{event.attribute}`" if isinstance(event, SetsLayer) else "a layer"
        mend = None
        if isinstance(event, SetsLayer) and event.direct.is_true:
            mend = safe(
                "call it first",
                InsertFirst("super().__init__()", function="__init__", without=("super(", ".__init__(")),
            )
        return Violation(f"{what} is set before Module.__init__ has run: this raises", at=event.site, mend=mend)

    @on(SuperCalled)
    def called(self, event: SuperCalled) -> Iterator[Violation]:
        if not event.fits.is_false:
            return
        yield Violation(
            f"super({event.named}, self) in class {event.within}: self is not a {event.named}: this raises",
            at=event.site,
            remedy="write super().__init__(), which needs no class",
            mend=safe("name no class", DropArguments()),
        )
