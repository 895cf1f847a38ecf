"""Random samples of steps, drawn by a generator of the guards' own: the user's programs find theirs untouched."""

from __future__ import annotations

import random
from typing import Final

SAMPLE: Final = random.Random()  # noqa: S311  a sample, not a secret
