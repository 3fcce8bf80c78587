"""Vowpal Wabbit as a peer, at its best: trained by its own C++ loop from a binary cache."""

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from vowpalwabbit import Workspace

from benchmarks.datasets import Data


class VW:
    """Writes the data once as text and once as VW's cache; `fit` then reads the cache alone."""

    def __init__(self, data: Data, loss: str, alpha: float, *, intercept: bool, bfgs: bool = False):
        self.folder = tempfile.TemporaryDirectory()
        root = Path(self.folder.name)
        self.text = root / "train.vw"
        self.cache = root / "train.cache"
        self.width = data.X.shape[1]
        bits = int(np.ceil(np.log2(self.width + 1)))
        self.options = [
            f"--loss_function {'logistic' if loss == 'log' else 'hinge'}",
            # Its BFGS minimises the sum of the losses, not their mean.
            f"--bfgs --l2 {alpha * data.y.size}" if bfgs else f"--l2 {alpha}",
            f"-b {bits}",
            "--quiet --holdout_off --random_seed 1",
            "" if intercept else "--noconstant",
        ]
        self.intercept = intercept
        self._write(data.X, np.where(data.y > 0, 1, -1))
        passes = "--passes 2" if bfgs else ""
        Workspace(self._args(f"-d {self.text} --cache_file {self.cache} -k {passes}")).finish()

    def _write(self, X: Any, y: np.ndarray) -> None:
        dense = not hasattr(X, "indptr")
        with self.text.open("w") as file:
            for i in range(X.shape[0]):
                if dense:
                    columns, values = np.arange(X.shape[1]), X[i]
                else:
                    part = slice(X.indptr[i], X.indptr[i + 1])
                    columns, values = X.indices[part], X.data[part]
                pairs = " ".join(f"{c}:{v:.9g}" for c, v in zip(columns, values, strict=True) if v)
                file.write(f"{y[i]} | {pairs}\n")

    def _args(self, more: str) -> str:
        return " ".join([*self.options, more])

    def fit(self, passes: int) -> tuple[float, np.ndarray, float]:
        """Train; return seconds, weights and bias.

        BFGS takes two passes at least.
        """
        passes = max(passes, 2) if "--bfgs" in self.options[1] else passes
        begin = time.perf_counter()
        model = Workspace(self._args(f"-d {self.text} --cache_file {self.cache} --passes {passes}"))
        seconds = time.perf_counter() - begin
        weights = np.array([model.get_weight(k) for k in range(self.width)])
        bias = model.get_weight_from_name("Constant") if self.intercept else 0.0
        model.finish()
        return seconds, weights, float(bias)
