"""A small convolutional network with a recurrent cell over the rows of a picture."""

import torch
import torch.nn.functional as F
from torch import nn


class Encoder(nn.Module):
    def __init__(self, channels=4, width=16, dropout=0.2):
        super().__init__()
        self.conv = nn.Conv2d(1, channels, 3, padding=1)
        self.cell = nn.GRUCell(channels * 8, width)
        self.width = width
        self.dropout = dropout

    def forward(self, pictures):
        rows = F.relu(self.conv(pictures)).permute(2, 0, 1, 3).flatten(2)
        state = pictures.new_zeros(pictures.size(0), self.width)
        for row in rows:
            state = self.cell(row, state)
        return F.dropout(state, self.dropout, training=self.training)


class Classifier(nn.Module):
    def __init__(self, classes, width=16):
        super().__init__()
        self.encoder = Encoder(width=width)
        self.head = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, classes))
        self.apply(self._initialise)

    @staticmethod
    def _initialise(module):
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, 0, 0.1)
            nn.init.zeros_(module.bias)

    def embed(self, pictures):
        embedding = torch.tanh(self.encoder(pictures))
        return F.normalize(embedding, dim=1)

    def forward(self, pictures):
        return self.head(self.embed(pictures))


class Decoder(nn.Module):
    def __init__(self, width=16, size=8):
        super().__init__()
        self.size = size
        self.out = nn.Linear(width, size * size)

    def forward(self, states):
        return self.out(states).view(-1, 1, self.size, self.size)
