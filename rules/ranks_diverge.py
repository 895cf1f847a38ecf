from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import RanksApart
from gradlint.finding import Effect, Severity
from gradlint.rule import Rule, Violation, listed, on


class RanksDiverge(Rule):
    """Ranks of a distributed training train the same parameters, each on its own, and come apart.

    ## What it does
    Compares what the same optimizer trains on different ranks, before its first step and after the eighth, sixteenth
    and so on, and reports parameters that are not the same there.

    ## Why is this bad
    Each rank trains a model of its own on its share of the data, and all but one of them are thrown away. Nothing
    raises and the loss falls. `DistributedDataParallel` was forgotten, wraps one of two models, or is passed by with
    `model.module(x)`; gradients are averaged by hand, and some are left out; or ranks began from different seeds.

    ## Example
    ```python
    from torch import distributed

    # torchrun --nproc-per-node 2 train.py
    distributed.init_process_group("gloo")
    for x, y in loader * 4:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
    ```

    ## Use instead
    ```python
    from torch import distributed
    from torch.nn.parallel import DistributedDataParallel

    distributed.init_process_group("gloo")
    replica = DistributedDataParallel(model)
    for x, y in loader * 4:
        optimizer.zero_grad()
        criterion(replica(x), y).backward()
        optimizer.step()
    ```

    ## At runtime
    Every rank is to run the guard. It makes no collective and waits for none: ranks leave a few elements of their
    parameters in the process group's store, or in that of torchrun, and rank 0 reads what is there, compares, and
    reports. They are apart if they are farther from each other than a hundredth of the way they have come, at three
    looks, or at the end of a training of eight steps or more. Parameters that have met once are not reported again.

    ## Stays silent on
    Shards (FSDP, DTensor); parameters of different names, shapes or settings, as in a pipeline; programs that make
    process groups of some of the ranks, send to single ranks, or make collectives while a model is called (tensor and
    expert parallelism); parameters that are exchanged between steps (local SGD, gossip, ZeRO); what
    `DistributedDataParallel` was told to ignore; parameters that belong to no module; one process. Ranks that train
    models of their own on purpose, such as an ensemble, look like a mistake: `ignore=["GL706"]`.

    ## References
    - [DistributedDataParallel](https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html)
    - [Distributed Data Parallel, the design](https://docs.pytorch.org/docs/stable/notes/ddp.html)
    """

    code = "GL706"
    name = "ranks-diverge"
    severity = Severity.WARNING
    effect = Effect.WRONG_RESULT
    fix = None
    concerns_values = True
    remedy = "wrap the model in DistributedDataParallel, or average all gradients before each step"

    @on(RanksApart)
    def apart(self, event: RanksApart) -> Iterator[Violation]:
        names, ranks = event.parameters, ", ".join(map(str, event.ranks[:-1]))
        differ = "differs" if len(names) == 1 else "differ"
        why = "they differed before the first one" if event.before else "each rank applies gradients of its own"
        if event.before and len(names) == 1:
            why = "it differed before the first one"
        yield Violation(
            f"{listed(names)} {differ} between ranks {ranks} and {event.ranks[-1]} after {event.steps} steps: {why}",
            at=event.site,
        )
