"""What the examples of the manual pages start from: they are appended to this text and executed."""

from __future__ import annotations

import numpy as np  # noqa: F401  examples may use it
import torch
import torch.nn.functional as F  # noqa: F401  examples may use it
from torch import nn

model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()
loader = [(torch.randn(4, 8), torch.randint(0, 3, (4,))) for _ in range(8)]
x, y = torch.randn(4, 8), torch.randint(0, 3, (4,))
