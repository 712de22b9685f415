"""The data of digits.py: 1,797 images of 8 x 8 pixels that scikit-learn brings. Read your own here."""

import lightning
import torch
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

VALIDATION_ROWS = 360


class Digits(lightning.LightningDataModule):
    def __init__(self, params):
        super().__init__()
        self.batch_size = params.batch_size

    def setup(self, stage):
        images, labels = load_digits(return_X_y=True)
        rows = TensorDataset(torch.tensor(images / 16).float(), torch.tensor(labels))
        self.train_rows = torch.utils.data.Subset(rows, range(VALIDATION_ROWS, len(rows)))
        self.val_rows = torch.utils.data.Subset(rows, range(VALIDATION_ROWS))

    def train_dataloader(self):
        return DataLoader(self.train_rows, self.batch_size, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.val_rows, 120)
