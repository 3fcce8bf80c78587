"""
TensorBoard
===========

A callback that writes every number of every epoch's record to TensorBoard's event files. View
them with ``tensorboard --logdir runs`` while the model is being fitted. (``pip install
tensorboard``; no deep-learning library is needed.)
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.summary import Writer

from monro import SoftmaxClassifier


class TensorBoard:
    """Writes the history of a fit, as it grows, to a folder."""

    def __init__(self, folder):
        self.folder = folder

    def setup(self, estimator, context):
        self.writer = Writer(str(self.folder))
        self.written = 0

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        for record in estimator.history_[self.written :]:
            for name, value in record.items():
                if isinstance(value, float):
                    self.writer.add_scalar(name, value, step=record["epoch"])
            self.writer.flush()
        self.written = len(estimator.history_)

    def teardown(self, estimator, context):
        self.writer.close()


# %%
# Early stopping adds the validation loss to the records.

X, y = load_digits(return_X_y=True)
folder = Path(tempfile.mkdtemp()) / "runs"
model = SoftmaxClassifier(early_stopping=True, alpha=0.0, random_state=0)
model.set_callbacks(TensorBoard(folder)).fit(X / 16, y)

# %%
# What TensorBoard will show, read back from its files:

events = EventAccumulator(str(folder), size_guidance={"tensors": 0}).Reload()
print(events.Tags()["tensors"])


def read(name):
    points = events.Tensors(name)
    return [point.step for point in points], [point.tensor_proto.float_val[0] for point in points]


for name in ("loss", "validation_loss"):
    plt.plot(*read(name), marker=".", label=name)
assert len(read("loss")[0]) == model.n_iter_
plt.xlabel("epoch")
plt.legend()
plt.show()
