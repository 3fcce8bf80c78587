"""The learners of sets with many labels a row: monro and its peers."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file
from sklearn.svm import LinearSVC

from benchmarks.observed.labelled import Labelled
from benchmarks.observed.models import THREADS, make
from benchmarks.regularisation.children import Result
from monro import load
from monro.softmax.metrics import propensities

BEST = 5
DEPTHS = (1, 3, 5)
PRECISIONS = [f"{kind}precision_at_{k}" for kind in ("", "propensity_scored_") for k in DEPTHS]


def padded(found: list[list[int]]) -> np.ndarray:
    """Return the best labels of rows as an array, -1 where fewer were found."""
    codes = np.full((len(found), BEST), -1)
    for row, labels in zip(codes, found, strict=True):
        row[: len(labels)] = labels[:BEST]
    return codes


def precisions(codes: np.ndarray, data: Labelled) -> Result:
    """Return precision and propensity-scored precision, normalised, of the labels found.

    Parameters
    ----------
    codes : array of shape (test rows, BEST)
        Labels, best first; -1 for none.
    data : Labelled
        The training rows give the propensities of the labels.
    """
    counts = np.bincount(data.Y.indices, minlength=data.Y.shape[1])
    value = 1.0 / propensities(counts, data.Y.shape[0])
    Y, known = data.test_Y, codes >= 0
    shown = np.where(known, codes, 0)
    hits = Y[np.arange(codes.shape[0])[:, None], shown].toarray() & known
    gained, most = hits * value[shown], np.zeros(codes.shape)
    for row, of_row in zip(most, np.split(value[Y.indices], Y.indptr[1:-1]), strict=True):
        best = np.sort(of_row)[::-1][:BEST]
        row[: best.size] = best
    found = {f"precision_at_{k}": float(hits[:, :k].mean()) for k in DEPTHS}
    for k in DEPTHS:
        scored = gained[:, :k].sum() / most[:, :k].sum()
        found[f"propensity_scored_precision_at_{k}"] = float(scored)
    return found


class Monro:
    """The default."""

    def __init__(self, data: Labelled, folder: Path):
        self.data, self.path = data, folder / "model.monro"
        self.model = make(n_jobs=THREADS)
        few = make(n_jobs=THREADS, max_epochs=1).fit(data.X[:50], data.Y[:50])
        few.predict_top_k(data.X[:50], BEST)  # compiles

    def fit(self) -> None:
        self.model.fit(self.data.X, self.data.Y)

    def predict(self) -> np.ndarray:
        return self.model.predict_top_k(self.data.test_X, BEST)[0]

    def save(self) -> Path:
        self.model.save(self.path, inference=True)
        return self.path

    def more(self) -> Result:
        """Return what only this learner has."""
        measured = self.model.evaluate(self.data.test_X, self.data.test_Y)
        of_model, of_file = (
            precisions(model.predict_top_k(self.data.test_X, BEST)[0], self.data)
            for model in (self.model, load(self.path))
        )
        return {
            "rounding": max(abs(of_file[key] - of_model[key]) for key in PRECISIONS),
            "calibration_error": measured["calibration_error"],
            "pairs": self.model.plan_["pairs"],
            "alpha": self.model.plan_["alpha"],
        }


class Omikuji:
    """Trees of labels, with settings that differ from the defaults."""

    def __init__(self, data: Labelled, folder: Path, **settings: Any):
        import omikuji

        self.library, self.data, self.folder = omikuji, data, folder
        self.settings = omikuji.Model.default_hyper_param()
        for name, value in settings.items():
            setattr(self.settings, name, value)
        with (folder / "rows.txt").open("wb") as file:
            file.write(b"%d %d %d\n" % (*data.X.shape, data.Y.shape[1]))
            dump_svmlight_file(data.X, sp.csr_matrix(data.Y), file, multilabel=True)

    def fit(self) -> None:
        rows = str(self.folder / "rows.txt")
        self.model = self.library.Model.train_on_data(rows, self.settings, THREADS)

    def predict(self) -> np.ndarray:
        self.model.init_prediction_thread_pool(THREADS)
        X = self.data.test_X
        found = []
        for start, stop in zip(X.indptr[:-1], X.indptr[1:], strict=True):
            entries = X.indices[start:stop].tolist(), X.data[start:stop].tolist()
            best = self.model.predict(list(zip(*entries, strict=True)), top_k=BEST)
            found.append([label for label, _ in best])
        return padded(found)

    def save(self) -> Path:
        self.model.save(str(self.folder / "model"))
        return self.folder / "model"


class NapkinXC:
    """A tree of labels with a probability at each node."""

    def __init__(self, data: Labelled, folder: Path):
        from napkinxc.models import PLT

        self.data, self.folder = data, folder / "model"
        self.model = PLT(str(self.folder), threads=THREADS, seed=0)

    def fit(self) -> None:
        self.model.fit(self.data.X, sp.csr_matrix(self.data.Y, dtype=np.float32))
        self.model.load()

    def predict(self) -> np.ndarray:
        return padded(self.model.predict(self.data.test_X, top_k=BEST))

    def save(self) -> Path:
        return self.folder  # that of the fit


class OneVsRest:
    """scikit-learn's LinearSVC, for each label that a training row has."""

    def __init__(self, data: Labelled, folder: Path):
        self.data, self.path = data, folder / "model.npz"

    def fit(self) -> None:
        X = self.data.X.astype(np.float64)
        by_label = self.data.Y.tocsc()
        self.labels = np.flatnonzero(np.diff(by_label.indptr))

        def fitted(label: int) -> LinearSVC | None:
            y = np.zeros(X.shape[0], np.int8)
            y[by_label.indices[by_label.indptr[label] : by_label.indptr[label + 1]]] = 1
            return LinearSVC(random_state=0).fit(X, y) if not y.all() else None

        with ThreadPoolExecutor(THREADS) as pool:
            models = list(pool.map(fitted, self.labels))
        self.coef = np.zeros((self.labels.size, X.shape[1]))
        self.intercept = np.ones(self.labels.size)  # of a label that all rows have
        for k, model in enumerate(models):
            if model is not None:
                self.coef[k], self.intercept[k] = model.coef_[0], model.intercept_[0]

    def predict(self) -> np.ndarray:
        scores = self.data.test_X @ self.coef.T + self.intercept
        best = np.argpartition(-scores, BEST - 1, axis=1)[:, :BEST]
        order = np.take_along_axis(scores, best, axis=1).argsort(axis=1)[:, ::-1]
        return self.labels[np.take_along_axis(best, order, axis=1)]

    def save(self) -> Path:
        np.savez(self.path, coef=self.coef, intercept=self.intercept, labels=self.labels)
        return self.path


OURS = "monro"
# As in the table of Omikuji's documents that compares it with Bonsai.
BONSAI: dict[str, Any] = {"cluster_k": 100, "cluster_balanced": False, "max_depth": 3}
LEARNERS: dict[str, Callable[[Labelled, Path], Any]] = {
    OURS: Monro,
    "Omikuji": Omikuji,
    "Omikuji, as Bonsai": partial(Omikuji, **BONSAI),
    "napkinXC, PLT": NapkinXC,
    "LinearSVC, one-vs-rest": OneVsRest,
}
LIBRARIES = {
    "Omikuji": "omikuji",
    "Omikuji, as Bonsai": "omikuji",
    "napkinXC, PLT": "napkinxc",
}
