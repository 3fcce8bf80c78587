"""Vowpal Wabbit as a peer, at its fastest: its own C++ loop reads a binary cache."""

import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.datasets import Data

_folder = tempfile.TemporaryDirectory()
_written: dict[int, Path] = {}


def _text_file(data: Data) -> Path:
    """Return the file of the training rows in VW's format, written once per data set."""
    key = id(data.X)
    if key not in _written:
        path = Path(_folder.name) / f"{len(_written)}.vw"
        X = sp.csr_matrix(data.X)
        with path.open("w") as file:
            for i, label in enumerate(np.where(data.y > 0, 1, -1)):
                part = slice(X.indptr[i], X.indptr[i + 1])
                pairs = zip(X.indices[part].tolist(), X.data[part].tolist(), strict=True)
                file.write(f"{label} | {' '.join(f'{c}:{v:.9g}' for c, v in pairs)}\n")
        _written[key] = path
    return _written[key]


class VW:
    """Trains from VW's own cache file, whose creation `fit` does not time."""

    def __init__(self, data: Data, loss: str, alpha: float, *, intercept: bool, bfgs: bool = False):
        self.text = _text_file(data)
        self.cache = self.text.with_suffix(f".{loss}.{bfgs}.cache")
        self.width = data.X.shape[1]
        self.sample = sp.csr_matrix(data.X[:500])
        # With 18 bits or more, the index of the constant collides with no feature of our data sets.
        bits = max(18, int(np.ceil(np.log2(self.width + 1))))
        self.constant = 11650396 % 2**bits
        self.options = [
            f"--loss_function {'logistic' if loss == 'log' else 'hinge'}",
            # BFGS minimises the sum of the losses, not their mean.
            f"--bfgs --l2 {alpha * data.y.size}" if bfgs else f"--l2 {alpha}",
            f"-b {bits}",
            "--quiet --holdout_off --random_seed 1",
            "" if intercept else "--noconstant",
        ]
        self.intercept = intercept
        passes = "--passes 2" if bfgs else ""
        self._run(f"-k {passes}").finish()

    def _run(self, more: str):
        # Imported here: the tables of the README are rendered without VW, too.
        from vowpalwabbit import Workspace

        paths = f"-d {self.text} --cache_file {self.cache}"
        return Workspace(" ".join([*self.options, paths, more]))

    def fit(self, passes: int) -> tuple[float, np.ndarray, float]:
        """Train; return seconds, weights and intercept. BFGS takes at least two passes."""
        passes = max(passes, 2) if "--bfgs" in self.options[1] else passes
        begin = time.perf_counter()
        model = self._run(f"--passes {passes}")
        seconds = time.perf_counter() - begin
        weights = np.array([model.get_weight(k) for k in range(self.width)])
        bias = model.get_weight(self.constant) if self.intercept else 0.0
        scale = self._scale(model, weights, bias)
        model.finish()
        return seconds, scale * weights, float(scale * bias)

    def _scale(self, model: Any, weights: np.ndarray, bias: float) -> float:
        """Return the factor of the stored weights in predictions: VW applies the ridge lazily."""
        with self.text.open() as file:
            texts = [line.split("|")[1] for line in islice(file, 500)]
        scores = self.sample @ weights + bias
        predictions = np.array([model.predict(f"|{text}") for text in texts])
        inside = (np.abs(predictions) < 0.9) & (scores != 0.0)  # VW clips the others
        return float(np.median(predictions[inside] / scores[inside]))
