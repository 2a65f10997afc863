"""Train a convolutional network on scikit-learn's digits with Lightning at 3 to 8 bits, and export it to ONNX.

python examples/lightning_digits.py --out out/digits
"""

import argparse

import lightning.pytorch as pl
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import bitcycle as bc
from bitcycle.integrations.lightning import PrecisionCallback


class ResumableLoader(DataLoader):  # it shuffles by the epoch, and Lightning's checkpoints carry its position
    position = 0
    state_dict = lambda self: {"position": self.position}
    load_state_dict = lambda self, state: vars(self).update(state)

    def __iter__(self):
        epoch, done = divmod(self.position, len(self))
        order = torch.randperm(len(self.dataset), generator=torch.Generator().manual_seed(epoch))
        for batch in order.split(self.batch_size)[done:]:
            self.position += 1
            yield self.dataset[batch]


class Digits(pl.LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        layers = [nn.Conv2d(1, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.BatchNorm2d(32)]
        self.model = nn.Sequential(*layers, nn.ReLU(), nn.Flatten(), nn.Linear(32 * 4 * 4, 10))

    def training_step(self, batch, index):
        return nn.functional.cross_entropy(self.model(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.02, momentum=0.9)


parser = argparse.ArgumentParser()
parser.add_argument("--out", default="out/digits")
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--resume", help="a checkpoint, also from the middle of an epoch, such as out/digits/last.ckpt")
options = parser.parse_args()
x, y = (torch.from_numpy(each) for each in load_digits(return_X_y=True))
data = TensorDataset(x.float().view(-1, 1, 8, 8) / 16, y)
module = bc.quantize(Digits(), keep="model.7")
saver = pl.callbacks.ModelCheckpoint(options.out, filename="last", every_n_train_steps=20, enable_version_counter=False)
precision = PrecisionCallback("RR:3-8", backward_bits=8)
trainer = pl.Trainer(max_epochs=options.epochs, accelerator="cpu", callbacks=[precision, saver], logger=False)
trainer.fit(module, ResumableLoader(TensorDataset(*data[:1437]), 32), ckpt_path=options.resume, weights_only=True)
print(f"accuracy {(module.eval().model(data[1437:][0]).argmax(1) == data[1437:][1]).float().mean():.4f}")  # at 8 bits
print(bc.export_onnx(module.model, data[1437:][0], f"{options.out}/model.onnx", kernels="integer"))  # and compare it
torch.save(bc.restore(module.model).state_dict(), f"{options.out}/model.pt")  # a plain state_dict
