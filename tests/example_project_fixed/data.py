"""Small synthetic pictures of bars: horizontal, vertical, diagonal, none."""

import torch
from torch.utils.data import DataLoader, Dataset

CLASSES = ("horizontal", "vertical", "diagonal", "none")
SIZE = 8


class Bars(Dataset):
    def __init__(self, count, noise=0.1, seed=0):
        generator = torch.Generator().manual_seed(seed)
        self.labels = torch.randint(0, len(CLASSES), (count,), generator=generator)
        self.data = noise * torch.rand(count, 1, SIZE, SIZE, generator=generator)
        for picture, label in zip(self.data, self.labels.tolist()):
            position = int(torch.randint(0, SIZE, (1,), generator=generator))
            if label == 0:
                picture[0, position] += 1
            elif label == 1:
                picture[0, :, position] += 1
            elif label == 2:
                picture[0] += torch.eye(SIZE)
        self.data -= self.data.mean()

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        return self.data[index], self.labels[index]


def make_loader(count, batch_size, train, seed=0):
    return DataLoader(Bars(count, seed=seed), batch_size=batch_size, shuffle=train)
