"""Train on bars: `python train.py --epochs 3`."""

import argparse

import numpy as np
import torch

from data import CLASSES, make_loader
from evaluate import accuracy, confusion_on_gpu, embeddings
from model import Classifier, Decoder
from trainer import Trainer, pretrain


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=32)
    args = parser.parse_args()

    torch.manual_seed(0)
    train_loader = make_loader(128, args.batch_size, train=True)
    test_loader = make_loader(64, args.batch_size, train=False, seed=1)

    model = Classifier(len(CLASSES))
    pretrain(model.encoder, Decoder(), train_loader, epochs=1)
    trainer = Trainer(model)
    trainer.fit(train_loader, args.epochs)

    curve = np.array(trainer.history)  # GL501
    print(f"last loss {curve[-1]:.3f}, accuracy {accuracy(model, test_loader):.2f}")
    print("embeddings", embeddings(model, test_loader).shape)
    if torch.cuda.is_available():
        print(confusion_on_gpu(model, test_loader, len(CLASSES)))


if __name__ == "__main__":
    main()
