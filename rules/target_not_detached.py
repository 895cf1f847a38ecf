from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import TargetWalked
from gradlint.finding import Effect, Severity
from gradlint.intents import Append, unsafe
from gradlint.rule import Rule, Violation, on, places


class TargetNotDetached(Rule):
    """The target of a regression carries the graph of the network that is to meet it.

    ## What it does
    Finds losses of temporal differences, such as `mse_loss(q(s), r + gamma * q(s2).max(1).values)`, where one network
    gives the prediction and the target, an optimizer steps it, and a backward pass walks both sides: the target is
    the sum of what is given and of a later prediction that is discounted, or the best of several.

    ## Why is this bad
    The target stands for what was learnt so far, and the prediction is to move towards it. With its graph, the target
    moves as well: the gradient is another one, and it pulls the values of later states towards those of earlier ones.
    Nothing raises and the loss goes down, but learning is slower, or ends elsewhere.

    ## Example
    ```python
    later, reward, action = torch.randn(4, 8), torch.randn(4), torch.randint(3, (4, 1))
    prediction = model(x).gather(1, action).squeeze(1)
    target = reward + 0.99 * model(later).max(1).values
    loss = nn.functional.mse_loss(prediction, target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    ```

    ## Use instead
    ```python
    later, reward, action = torch.randn(4, 8), torch.randn(4), torch.randint(3, (4, 1))
    prediction = model(x).gather(1, action).squeeze(1)
    with torch.no_grad():
        target = reward + 0.99 * model(later).max(1).values
    loss = nn.functional.mse_loss(prediction, target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    ```

    ## At runtime
    The guard recognises the target by its graph, where a backward pass is about to walk it. It sees optimizers that
    are given to it, are built while it watches, or have made a step.

    ## Stays silent on
    Targets that are detached or computed under `no_grad`; a target network that no optimizer steps: its gradients are
    wasted, but change nothing; losses in which both sides are meant to move, as siamese, contrastive and consistency
    losses, autoencoders and residuals of differential equations; differences that are only looked at.
    Residual-gradient methods walk such a target on purpose: suppress it there.

    ## References
    - [DQN tutorial](https://docs.pytorch.org/tutorials/intermediate/reinforcement_q_learning.html)
    - [torch.Tensor.detach](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.detach.html)
    """

    code = "GL218"
    name = "target-not-detached"
    severity = Severity.ERROR
    effect = Effect.WRONG_RESULT
    fix = "unsafe"
    remedy = "compute the target under torch.no_grad(), or detach it"

    @on(TargetWalked)
    def walked(self, event: TargetWalked) -> Iterator[Violation]:
        if not event.owned.is_true:
            return
        what = f"the target of this {event.loss}" if event.loss else "the target in this difference"
        yield Violation(
            f"{what} comes from the network that it trains, graph and all: gradients flow through both sides",
            at=event.site,
            related=places(("the target is put together here", event.target_at)),
            mend=unsafe("detach the target", Append(event.role, ".detach()")) if event.role else None,
        )
