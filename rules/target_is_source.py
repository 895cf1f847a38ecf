from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import WeightsTaken
from gradlint.finding import Effect, Severity
from gradlint.rule import Rule, Violation, on, places

_TAKEN = {
    "load": "this is given its own state dict: both names mean one object, so nothing changes",
    "pairs": "these are the parameters of one module twice: what is to be updated is the very module it is to follow",
}


class TargetIsSource(Rule):
    """A target or averaged network is the very network it is updated from.

    ## What it does
    Finds `target.load_state_dict(online.state_dict())`, and `zip(target.parameters(), online.parameters())`, where both
    names mean one module.

    ## Why is this bad
    `target = online` makes no copy, it gives the network a second name. The target moves with every optimizer step, and
    updating it changes nothing: a network that is meant to lag behind, and to keep the goal in place, is never there.
    Training by its own output is unstable, and an average of the weights is no average.

    ## Example
    ```python
    target = model
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
    target.load_state_dict(model.state_dict())
    ```

    ## Use instead
    ```python
    import copy

    target = copy.deepcopy(model)
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
    target.load_state_dict(model.state_dict())
    ```

    ## At runtime
    The guard sees `load_state_dict`, where it is given what `state_dict()` returns. It does not see pairs.

    ## Stays silent on
    Copies; modules of a list that one value stands for; a state dict that was kept in a variable, or changed, before it
    is loaded; `module.load_state_dict(module.state_dict())`, under the same name, which says what it does.

    ## References
    - [Reinforcement learning (DQN) tutorial](https://docs.pytorch.org/tutorials/intermediate/reinforcement_q_learning.html)
    """

    code = "GL416"
    name = "target-is-source"
    severity = Severity.ERROR
    effect = Effect.WRONG_RESULT
    fix = None
    remedy = "make the target a copy: copy.deepcopy(online)"

    @on(WeightsTaken)
    def taken(self, event: WeightsTaken) -> Iterator[Violation]:
        if not event.own.is_true:
            return
        yield Violation(_TAKEN[event.by], at=event.site, related=places(("the only one there is", event.built_at)))
