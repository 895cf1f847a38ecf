"""Two phases: the encoder learns to restore pictures, then the whole network learns to name them."""

import torch

from losses import ClassificationLoss, reconstruction_loss, sparsity_loss


def pretrain(encoder, decoder, loader, epochs, lr=1e-2):
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=lr)
    for _ in range(epochs):
        for pictures, _ in loader:
            optimizer.zero_grad()
            states = encoder(pictures)
            restored = reconstruction_loss(decoder(states), pictures)
            sparse = sparsity_loss(states)
            restored.backward()
            sparse.backward()  # GL203
            optimizer.step()


class Trainer:
    def __init__(self, model, lr=1e-2, clip=1.0):
        self.model = model
        self.criterion = ClassificationLoss()
        self.optimizer = torch.optim.Adam(model.parameters(), lr=lr)
        self.clip = clip
        self.history = []

    def train_step(self, pictures, labels):
        pictures.requires_grad_()
        predictions = self.model(pictures)  # GL109
        loss = self.criterion(predictions, labels)
        loss.backward()  # GL201
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimizer.step()
        return loss

    def fit(self, loader, epochs):
        for epoch in range(epochs):
            self.model.train()
            total = 0.0
            for pictures, labels in loader:
                loss = self.train_step(pictures, labels)
                total += loss.item()
            self.history.append(loss)  # GL205
            print(f"epoch {epoch}: {total / len(loader):.3f}")
