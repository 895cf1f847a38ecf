"""What the trained network knows."""

import numpy as np
import torch


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    right, seen = 0, 0
    for pictures, labels in loader:
        predictions = model(pictures).argmax(dim=1)
        right += (predictions == labels).sum().item()
        seen += labels.numel()
    return right / seen


def embeddings(model, loader):
    model.eval()
    rows = []
    for pictures, _ in loader:
        rows.append(model.embed(pictures).numpy())  # GL406 GL501
    return np.concatenate(rows)


@torch.no_grad()
def confusion_on_gpu(model, loader, classes):
    model.cuda().eval()
    counts = np.zeros((classes, classes), dtype=int)
    for pictures, labels in loader:
        predictions = model(pictures.cuda()).argmax(dim=1)
        np.add.at(counts, (labels.numpy(), predictions.numpy()), 1)  # GL502
    return counts
