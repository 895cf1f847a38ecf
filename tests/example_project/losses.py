"""The losses of both phases."""

import torch.nn.functional as F
from torch import nn


class ClassificationLoss(nn.Module):
    def __init__(self, smoothing=0.05):
        super().__init__()
        self.cross_entropy = nn.CrossEntropyLoss(label_smoothing=smoothing)

    def forward(self, predictions, labels):
        return self.cross_entropy(predictions, labels)  # GL301


def reconstruction_loss(restored, pictures):
    return F.mse_loss(restored, pictures)


def sparsity_loss(states, weight=1e-3):
    return weight * states.abs().mean()
