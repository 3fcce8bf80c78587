"""Hashes of fits, to see that a refactoring changed no bit.

`python -m tests.bits FILE` fits every estimator with every solver on small data of every kind, on
one thread, and writes a hash of each model file's arrays and description (without durations).
`python -m tests.bits FILE --against OTHER` compares two such files, of the sources before and after
a change, made on one machine. Hashes differ between processors, so none is kept here.
"""

import argparse
import hashlib
import itertools
import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

Case = tuple[str, Callable[[], Any]]

# ------------------------------------------------------------------------------------------- data


def _rows(n: int, d: int, dtype: str, kind: str, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < (0.2 if kind == "csr" else 0.9))
    X = X.astype(dtype)
    return sp.csr_matrix(X) if kind == "csr" else X


def _classes(X: Any, n_classes: int, seed: int = 1) -> Any:
    rng = np.random.default_rng(seed)
    scores = X @ rng.normal(size=(X.shape[1], n_classes)) + rng.gumbel(size=(X.shape[0], n_classes))
    y = np.asarray(scores).argmax(axis=1)
    y[:n_classes] = np.arange(n_classes)
    return y


def _sentences(n: int = 60) -> tuple[Any, Any]:
    rng = np.random.default_rng(3)
    words = [f"w{k}" for k in range(30)]
    sentences = [[words[k] for k in rng.integers(30, size=rng.integers(1, 9))] for _ in range(n)]
    tags = [["ABC"[int(word[1:]) % 3] for word in sentence] for sentence in sentences]
    return sentences, tags


def _choices() -> Any:
    import pandas as pd

    rng = np.random.default_rng(4)
    n, k = 150, 5
    price = rng.normal(size=(n, k))
    size = rng.normal(size=(n, k))
    chosen = (price - size + rng.gumbel(size=(n, k))).argmax(axis=1)
    return pd.DataFrame(
        {
            "situation": np.repeat(np.arange(n), k),
            "alternative": np.tile(np.arange(k), n),
            "chosen": (np.arange(k) == chosen[:, None]).ravel().astype(int),
            "price": price.ravel(),
            "size": size.ravel(),
        }
    )


# ------------------------------------------------------------------------------------------ hashes


def _without_times(about: Any) -> Any:
    if isinstance(about, dict):
        return {k: _without_times(v) for k, v in about.items() if k != "seconds"}
    if isinstance(about, list):
        return [_without_times(each) for each in about]
    return about


def hash_of(model: Any) -> str:
    """Return the hash of what the model's file holds."""
    from safetensors import safe_open

    digest = hashlib.sha256()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.monro"
        model.save(path)
        with safe_open(path, "np") as file:
            about = _without_times(json.loads(file.metadata()["about"]))
            digest.update(json.dumps(about, sort_keys=True).encode())
            for name in sorted(file.keys()):
                array = file.get_tensor(name)
                digest.update(f"{name} {array.dtype} {array.shape}".encode())
                digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


# ------------------------------------------------------------------------------------------- cases


def _linear() -> Iterator[Case]:
    from monro import LinearClassifier, LinearRegressor

    solvers = [
        "auto",
        "dual",
        "asgd",
        "sgd",
        "casgd",
        "implicit",
        "aisgd",
        "sgdqn",
        "asgdqn",
        "sgdqn-flawed",
    ]
    kinds = list(itertools.product(["float32", "float64"], ["csr", "dense"]))

    def fit(kind: Any, X: Any, y: Any, given: dict[str, Any], **options: Any) -> Any:
        return kind(random_state=0, max_epochs=4, **given).fit(X, y, **options)

    def both(name: str, kind: Any, X: Any, y: Any, given: dict[str, Any], **options: Any) -> Case:
        return name, lambda: fit(kind, X, y, given, **options)

    for dtype, rows in kinds:
        X = _rows(300, 12, dtype, rows)
        y = _classes(X, 2)
        t = np.asarray(X @ np.arange(12.0)).ravel() / 12 + 1.0
        for solver, schedule, bias in itertools.product(
            solvers, ["bottou", "inverse-t"], [True, False]
        ):
            given = {
                "solver": solver, "schedule": schedule, "fit_intercept": bias, "alpha": 1e-3
            }  # fmt: skip
            at = f"{solver} {schedule} {'bias' if bias else 'plain'} {dtype} {rows}"
            for loss in ("hinge", "squared_hinge", "log"):
                settings = given | {"loss": loss}
                yield both(f"classifier {loss} {at}", LinearClassifier, X, y, settings)
            for loss in ("squared", "absolute", "huber", "poisson"):
                target = np.abs(t).round() if loss == "poisson" else t
                settings = given | {"loss": loss}
                yield both(f"regressor {loss} {at}", LinearRegressor, X, target, settings)
        many, weight = _classes(X, 4), np.random.default_rng(5).random(300).round(1)
        for solver in ("dual", "asgd", "implicit", "sgdqn", "casgd"):
            at = f"{solver} {dtype} {rows}"
            log = {"loss": "log", "solver": solver, "alpha": 1e-3}
            yield both(f"one-vs-rest {at}", LinearClassifier, X, many, log)
            stop = log | {"early_stopping": True, "tol": 1e-3}
            yield both(f"early stopping {at}", LinearClassifier, X, many, stop)
            balanced = log | {"class_weight": "balanced", "shuffle": False, "tol": 1e-4}
            yield both(f"weights {at}", LinearClassifier, X, y, balanced, sample_weight=weight)

            def again(log: Any = log, X: Any = X, y: Any = y) -> Any:
                model = LinearClassifier(random_state=0, warm_start=True, max_epochs=3, **log)
                return model.fit(X, y).fit(X, y)

            yield f"warm start {at}", again

            def stream(log: Any = log, X: Any = X, y: Any = y) -> Any:
                model = LinearClassifier(random_state=0, **log)
                for part in (slice(0, 150), slice(150, 300)):
                    model.partial_fit(X[part], y[part], classes=[0, 1])
                return model

            if solver != "dual":
                yield f"partial_fit {at}", stream
        slow = {"solver": "sgd", "alpha": 0.0, "learning_rate": 0.01, "decay": 0.5}
        yield both(f"no ridge {dtype} {rows}", LinearClassifier, X, y, slow)
    for columns, solver in itertools.product((5, 2000), ("dual", "aisgd", "asgd", "casgd")):
        rng = np.random.default_rng(6)
        at = rng.choice(1 << 19, columns, replace=False)[rng.integers(columns, size=(400, 5))]
        at = np.sort(at, axis=1)
        wide = sp.csr_matrix(
            (np.ones(2000), at.ravel(), np.arange(0, 2001, 5)), shape=(400, 1 << 19)
        )
        wide.sum_duplicates()
        y = (rng.random(400) < 0.5).astype(int)
        given = {"loss": "log", "solver": solver}
        yield both(f"wide {columns} {solver}", LinearClassifier, wide, y, given)


def _softmax() -> Iterator[Case]:
    from monro import SoftmaxClassifier
    from monro.data.convert import write_store

    def case(name: str, X: Any, y: Any, given: dict[str, Any], **options: Any) -> Case:
        settings = {"random_state": 0, "max_epochs": 4} | given
        return name, lambda: SoftmaxClassifier(**settings).fit(X, y, **options)

    kinds = itertools.product(["float32", "float64"], ["csr", "dense"], [5, 300])
    for dtype, rows, k in kinds:
        X = _rows(700, 15, "float64", rows)
        y = _classes(X, k)
        at = f"{dtype} {rows} K={k}"
        base = {"dtype": dtype}
        for alpha, bias, start in itertools.product([0.0, 1e-3], [True, False], ["auto", "zero"]):
            settings = base | {"alpha": alpha, "fit_intercept": bias, "init": start}
            how = f"alpha={alpha} {'bias' if bias else 'plain'} {start} {at}"
            for solver in ("implicit", "umax", "vanilla", "sco", "ove", "nce", "importance",
                           "exact", "lbfgs", "augment-reduce"):  # fmt: skip
                given = settings | {"solver": solver}
                if solver in ("umax", "vanilla", "sco"):
                    given["learning_rate"] = 0.01
                yield case(f"{solver} {how}", X, y, given)
        for solver, formulation, sampling in itertools.product(
            ("implicit", "umax", "vanilla"),
            ("difference", "raman"),
            ("block", "uniform", "frequency", "neighbour"),
        ):
            given = base | {
                "solver": solver, "formulation": formulation, "sampling": sampling,
                "learning_rate": 0.02, "alpha": 1e-4,
            }  # fmt: skip
            yield case(f"{solver} {formulation} {sampling} {at}", X, y, given)
        for m in (1, 3, 32):
            given = base | {"classes_per_step": m}
            yield case(f"{m} classes a step {at}", X, y, given)
        more = {
            "early stopping": {"early_stopping": True},
            "tol": {"tol": 1e-3},
            "decay": {"epoch_decay": 0.8},
            "long": {"max_epochs": 30},
            "no shuffle": {"shuffle": False},
            "class weight": {"class_weight": "balanced"},
            "radius": {"solver": "umax", "radius": 2.0, "learning_rate": 0.05, "delta": 0.5},
            "probit": {"solver": "augment-reduce", "link": "probit"},
            "logistic": {"solver": "augment-reduce", "link": "logistic"},
            "posterior": {"solver": "augment-reduce", "posterior": "gaussian", "alpha": 0.01},
            "posterior probit": {
                "solver": "augment-reduce",
                "posterior": "gaussian",
                "alpha": 0.01,
                "link": "probit",
            },
            "nce blocks": {"solver": "nce", "classes_per_step": 16},
        }
        for name, given in more.items():
            yield case(f"{name} {at}", X, y, base | given)
        weight = np.random.default_rng(5).random(700).round(1)
        yield case(f"weights {at}", X, y, base, sample_weight=weight)
        if k == 5:
            batches = base | {"examples_per_step": 20, "max_epochs": 2, "alpha": 1e-3}
            yield case(f"implicit batches {at}", X, y, batches)
            Y = (np.random.default_rng(7).random((700, 6)) < 0.3).astype(int)
            yield case(f"labels {at}", X, Y, base)
            yield case(f"declared {at}", X, y, base | {"classes": range(9)})

        def again(X: Any = X, y: Any = y, base: Any = base, k: int = k) -> Any:
            model = SoftmaxClassifier(random_state=0, warm_start=True, max_epochs=3, **base)
            some = np.append(np.arange(k), np.arange(350, 700))  # of all classes
            return model.fit(X, y).fit(X, y).fit(X[some], y[some])

        def stream(X: Any = X, y: Any = y, base: Any = base, solver: str = "implicit") -> Any:
            model = SoftmaxClassifier(random_state=0, max_epochs=3, solver=solver, **base)
            ids = np.arange(y.size)
            for part in (slice(0, 300), slice(200, 500), slice(300, 700)):
                model.partial_fit(X[part], y[part], sample_id=ids[part])
            return model

        def continued(X: Any = X, y: Any = y, base: Any = base) -> Any:
            model = SoftmaxClassifier(random_state=0, max_epochs=3, alpha=1e-3, **base).fit(X, y)
            return model.partial_fit(X[:100], y[:100]).partial_fit(X[100:], y[100:])

        yield f"warm start {at}", again
        yield f"partial_fit {at}", stream
        yield f"partial_fit exact {at}", lambda stream=stream: stream(solver="exact")
        yield f"fit, then partial_fit {at}", continued
        if rows == "csr":

            def stored(X: Any = X, y: Any = y, base: Any = base, stop: bool = False) -> Any:
                with tempfile.TemporaryDirectory() as folder:
                    path = Path(folder) / "store"
                    write_store([(X, y)], path)
                    model = SoftmaxClassifier(
                        random_state=0, max_epochs=3, early_stopping=stop, **base
                    )
                    return model.fit(path)

            yield f"store {at}", stored
            yield f"store, early stopping {at}", lambda stored=stored: stored(stop=True)


def _others() -> Iterator[Case]:
    from monro import ChoiceModel, CRFTagger

    sentences, tags = _sentences()
    features = [[{"word": word, "end": word[-1]} for word in s] for s in sentences]
    for solver in ("asgd", "sgd", "sgdqn", "sgdqn-flawed"):
        for name, X, given in (
            ("words", sentences, {}),
            ("features", features, {}),
            ("template", sentences, {"template": "U:%x[0,0]\nU:%x[-1,0]/%x[0,0]\nB:%x[0,0]\nB"}),
            ("hashed", sentences, {"hash_bits": 10}),
            ("cutoff", sentences, {"cutoff": 3, "c": 0.1, "tol": 1e-4}),
        ):
            settings = {"random_state": 0, "max_epochs": 4, "solver": solver, "c": 1.0} | given

            def fit(X: Any = X, settings: Any = settings) -> Any:
                return CRFTagger(**settings).fit(X, tags)

            def grown(X: Any = X, settings: Any = settings) -> Any:
                model = CRFTagger(**settings).fit(X[:30], tags[:30])
                return model.partial_fit(X[20:], tags[20:])

            yield f"tagger {solver} {name}", fit
            yield f"tagger {solver} {name}, then partial_fit", grown
    frame = _choices()
    for link, solver in itertools.product(
        ("softmax", "probit", "logistic"), ("likelihood", "augment-reduce")
    ):

        def choose(link: str = link, solver: str = solver) -> Any:
            return ChoiceModel(link=link, solver=solver, max_epochs=20, random_state=0).fit(frame)

        yield f"choice {link} {solver}", choose


_GROUPS = {"linear": _linear, "softmax": _softmax, "others": _others}


def _run(group: str, share: int, shares: int) -> dict[str, str]:
    warnings.simplefilter("ignore")
    found = {}
    for k, (name, fit) in enumerate(_GROUPS[group]()):
        if k % shares != share:
            continue
        try:
            found[f"{group}: {name}"] = hash_of(fit())
        except (ValueError, ArithmeticError, RuntimeError, AttributeError) as error:
            found[f"{group}: {name}"] = f"{type(error).__name__}: {error}"
    return found


def main() -> None:
    """Write or compare hashes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--groups", nargs="*", default=list(_GROUPS))
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    if given.against is None:
        jobs = [(group, k, given.jobs) for group in given.groups for k in range(given.jobs)]
        with ProcessPoolExecutor(given.jobs) as pool:
            parts = list(pool.map(_run, *zip(*jobs, strict=True)))
        found = {name: value for part in parts for name, value in sorted(part.items())}
        given.file.write_text(json.dumps(found, indent=1) + "\n")
        refused = sum(":" in value for value in found.values())
        print(f"{len(found)} fits, {refused} of them refused with a message")
        return
    ours, theirs = (json.loads(path.read_text()) for path in (given.file, given.against))
    shared = ours.keys() & theirs.keys()
    different = sorted(name for name in shared if ours[name] != theirs[name])
    for name in different:
        print(f"{name}\n    {theirs[name]}\n    {ours[name]}")
    print(f"{len(shared)} fits compared, {len(different)} differ")
    sys.exit(bool(different))


if __name__ == "__main__":
    main()
