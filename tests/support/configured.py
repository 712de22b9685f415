"""Projects that are configured by files, as their owners have them: no line of them knows this program."""

from __future__ import annotations

from pathlib import Path

MODEL = """
import lightning.pytorch as pl
import torch
from torch import nn


class Net(pl.LightningModule):
    def __init__(
        self,
        lr: float = 0.1,
        hidden: int = 32,
        act: str = "relu",
        classes: int = 10,
        drop: float | None = None,
    ):
        super().__init__()
        self.save_hyperparameters()
        self.lr = lr
        layers = [nn.Linear(64, hidden), nn.ReLU() if act == "relu" else nn.Tanh()]
        self.net = nn.Sequential(*layers, nn.Dropout(drop or 0.0), nn.Linear(hidden, classes))

    def training_step(self, batch):
        return nn.functional.cross_entropy(self.net(batch[0]), batch[1])

    def validation_step(self, batch):
        self.log("val_acc", (self.net(batch[0]).argmax(1) == batch[1]).float().mean())

    def test_step(self, batch):
        self.log("test_acc", (self.net(batch[0]).argmax(1) == batch[1]).float().mean())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), self.lr)
"""
DATA = """
import lightning.pytorch as pl
from sklearn.datasets import load_digits
from torch import tensor
from torch.utils.data import DataLoader, TensorDataset


class Digits(pl.LightningDataModule):
    def __init__(self, batch_size: int = 64, sizes: list[int] = [1000, 400]):
        super().__init__()
        self.batch_size, self.sizes, self.classes = batch_size, sizes, 10

    def setup(self, stage):
        images, digits = map(tensor, load_digits(return_X_y=True))
        rest = len(digits) - sum(self.sizes)
        parts = zip((images.float() / 16).split([*self.sizes, rest]), digits.split([*self.sizes, rest]))
        self.parts = [TensorDataset(*part) for part in parts]

    def train_dataloader(self):
        return DataLoader(self.parts[0], self.batch_size, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.parts[1], 400)

    def test_dataloader(self):
        return DataLoader(self.parts[2], 400)
"""
CLI = """
from lightning.pytorch.cli import LightningCLI

from net_project.data import Digits
from net_project.model import Net


class CLI(LightningCLI):
    def add_arguments_to_parser(self, parser):
        parser.link_arguments("data.classes", "model.classes", apply_on="instantiate")
        parser.add_argument("--test_after_fit", type=bool, default=True)


def main():
    try:
        CLI(Net, Digits)
    except Exception as error:
        raise SystemExit(f"my own words: {error}")


if __name__ == "__main__":
    main()
"""
CONFIG = """
seed_everything: 3
model: {hidden: 48}
trainer:
  max_epochs: 50
  gradient_clip_val: 0.5
  limit_val_batches: 1
  precision: 32-true
  callbacks:
    - class_path: ModelCheckpoint
      init_args: {monitor: val_acc, mode: max}
    - class_path: EarlyStopping
      init_args: {monitor: val_acc, mode: max, patience: 40}
    - class_path: LearningRateMonitor
"""
ANY_CLI = """
from lightning.pytorch.cli import LightningCLI

cli = LightningCLI()
"""
ANY_CONFIG = """
model: {class_path: net_project.model.Net, init_args: {hidden: 16}}
data: {class_path: net_project.data.Digits}
optimizer: {class_path: Adam, init_args: {lr: 0.01}}
"""
REFERENCES = """
from lightning.pytorch.cli import LightningCLI

from net_project.data import Digits
from net_project.model import Net

if __name__ == "__main__":
    LightningCLI(Net, Digits, parser_kwargs={"parser_mode": "omegaconf"})
"""
OWN_LOADERS = """
import lightning.pytorch as pl
from lightning.pytorch.cli import LightningCLI

from net_project.data import Digits
from net_project.model import Net


class Whole(Net):
    def __init__(self, lr: float = 0.1, batch_size: int = 32):
        super().__init__(lr)
        self.data = Digits(batch_size)
        self.data.setup("fit")

    def train_dataloader(self):
        return self.data.train_dataloader()

    def val_dataloader(self):
        return self.data.val_dataloader()


if __name__ == "__main__":
    cli = LightningCLI(Whole, subclass_mode_model=True, run=False, seed_everything_default=1)
    cli.trainer.fit(cli.model)
"""
FILES = {
    "net_project/__init__.py": "",
    "net_project/model.py": MODEL,
    "net_project/data.py": DATA,
    "net_project/cli.py": CLI,
    "net_project/any_cli.py": ANY_CLI,
    "net_project/own_loaders.py": OWN_LOADERS,
    "net_project/references.py": REFERENCES,
    "references.yaml": "model: {hidden: '${data.batch_size}'}\ndata: {batch_size: 20}\n",
    "net_project/nothing.py": "print('no cli here')\n",
    "net_project/broken.py": "import no_such_package\n",
    "config.yaml": CONFIG,
    "any.yaml": ANY_CONFIG,
    "own.yaml": "model: {class_path: __main__.Whole, init_args: {batch_size: 50}}\n",
}


def write(folder: Path) -> Path:
    """The project; its folder."""
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def write_older(folder: Path) -> Path:
    """The same project on `pytorch_lightning`; its folder."""
    for file in write(folder).rglob("*.py"):
        file.write_text(file.read_text().replace("lightning.pytorch", "pytorch_lightning"))
    return folder


HYDRA = {
    "configs/train.yaml": (
        "defaults: [_self_, model: net, data: digits, callbacks: default, trainer: default]\n"
        "task_name: train\nseed: 3\nout: ${oc.env:NET_PROJECT_OUT,out}\n"
    ),
    "configs/trainer/default.yaml": (
        "_target_: lightning.pytorch.Trainer\nmax_epochs: 50\ngradient_clip_val: 0.5\n"
        "default_root_dir: ${hydra:runtime.output_dir}\n"
    ),
    "configs/trainer/cpu.yaml": "defaults: [default]\naccelerator: cpu\n",
    "configs/model/net.yaml": (
        "_target_: net_project.model.Net\nlr: 0.1\nhidden: 48\nact: relu\ndrop: null\n"
        "classes: ${data.classes}\n"
    ),
    "configs/data/digits.yaml": (
        "_target_: net_project.data.Counted\nbatch_size: 64\nclasses: 10\nsizes: [1000, 400]\n"
        "folder: ${out}\n"
    ),
    "configs/callbacks/default.yaml": (
        "best:\n  _target_: lightning.pytorch.callbacks.ModelCheckpoint\n  monitor: val_acc\n  mode: max\n"
        "early:\n  _target_: lightning.pytorch.callbacks.EarlyStopping\n  monitor: val_acc\n  mode: max\n"
        "  patience: 40\n"
    ),
    "train.py": (
        "import hydra\nfrom lightning.pytorch import seed_everything\n\n\n"
        '@hydra.main(version_base=None, config_path="configs", config_name="train")\n'
        "def main(config):\n"
        "    seed_everything(config.seed)\n"
        "    model, data = hydra.utils.instantiate(config.model), hydra.utils.instantiate(config.data)\n"
        "    callbacks = [hydra.utils.instantiate(each) for each in config.callbacks.values()]\n"
        "    trainer = hydra.utils.instantiate(config.trainer, callbacks=callbacks)\n"
        "    trainer.fit(model, data)\n"
        '    print("lr", model.lr, "val_acc", float(trainer.callback_metrics["val_acc"]))\n\n\n'
        'if __name__ == "__main__":\n    main()\n'
    ),
}
COUNTED = """

class Counted(Digits):
    def __init__(self, batch_size, classes, sizes, folder):
        super().__init__(batch_size, list(sizes))
        self.classes, self.folder = classes, folder
"""


HYDRA_GROUPS = {
    "configs/model/cnn.yaml": HYDRA["configs/model/net.yaml"],
    "configs/model/mlp.yaml": "_target_: net_project.model.Mlp\nwidth: 8\nlr: 0.2\nopt: ${optimizer}\n",
    "configs/optimizer/adam.yaml": "_target_: torch.optim.Adam\n_partial_: true\nlr: 0.001\n",
    "configs/optimizer/sgd.yaml": "_target_: torch.optim.SGD\n_partial_: true\nlr: 0.1\nmomentum: 0.9\n",
    "configs/experiment/small.yaml": "# @package _global_\nmodel: {hidden: 4}\n",
    "configs/experiment/large.yaml": "# @package _global_\nmodel: {hidden: 64}\n",
}
MLP = """

class Mlp(Net):
    def __init__(self, opt, width: int = 8, lr: float = 0.1):
        super().__init__(lr, hidden=width)
        self.opt = opt

    def configure_optimizers(self):
        return self.opt(self.parameters())
"""


def write_hydra_groups(folder: Path) -> Path:
    """The same with more config groups, and options with settings of their own; its folder."""
    write_hydra(folder)
    for name, text in HYDRA_GROUPS.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    train = folder / "configs" / "train.yaml"
    train.write_text(train.read_text().replace("model: net,", "optimizer: adam, model: net,"))
    (folder / "net_project" / "model.py").write_text(MODEL + MLP)
    return folder


def write_hydra(folder: Path) -> Path:
    """The same project, configured by Hydra; its folder."""
    write(folder)
    for name, text in HYDRA.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "net_project" / "data.py").write_text(DATA + COUNTED)
    return folder
