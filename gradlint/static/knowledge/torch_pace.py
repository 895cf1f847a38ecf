"""How far optimizers go in a step, and how long schedules are."""

from __future__ import annotations

from typing import Final

from gradlint.static.knowledge.library import known
from gradlint.static.knowledge.ops import names

PROPORTIONAL: Final = names("torch.optim", "ASGD SGD") | known().names("proportional")
"""Optimizers that go as far as the gradients are large; the others divide by their size."""

LENGTHS: Final = frozenset(
    ["T_0", "T_max", "max_steps", "num_training_steps", "step_size_up", "steps_per_epoch", "total_iters", "total_steps"]
)
"""The arguments of schedulers that tell how many steps they have."""

LENGTH_AT: Final[dict[str, int]] = {
    "CosineAnnealingLR": 1,
    "CosineAnnealingWarmRestarts": 1,
    "CyclicLR": 3,
    "OneCycleLR": 2,
    "PolynomialLR": 1,
    **{name.rpartition(".")[2]: place for name, place in known().table("schedule_lengths").items()},
}
"""Where the number of its steps stands among the arguments of a scheduler, if it is not told by name."""
