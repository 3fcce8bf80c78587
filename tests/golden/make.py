"""Make golden model files of the present version: once, when the version is new.

python -m tests.golden.make
"""

import json
from pathlib import Path

import numpy as np

from monro import LinearClassifier, LinearRegressor
from monro.persist import VERSION

FOLDER = Path(__file__).parent


def make(name, model, X, y):
    model.fit(X, y)
    path = FOLDER / f"v{VERSION}-{name}.monro"
    assert not path.exists(), f"{path} is golden: raise VERSION instead"
    model.save(path)
    scores = model.decision_function(X) if hasattr(model, "classes_") else model.predict(X)
    expected = {
        "X": X.tolist(),
        "predictions": model.predict(X).tolist(),
        "parameters": model.get_params(),
        "scores": scores.tolist(),
        "streams": model.solver_ != "dual",
    }
    path.with_suffix(".json").write_text(json.dumps(expected, indent=1) + "\n")


def main():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3)).round(3)
    y = X @ [1.0, -2.0, 0.5]
    words = np.array(["cat", "dog", "eel"])[np.digitize(y, [-1, 1])]
    settings = {"random_state": 0, "max_epochs": 3, "alpha": 0.01}
    make("dual", LinearClassifier(**settings, loss="log", solver="dual"), X, (y > 0).astype(int))
    for solver in ("sgd", "asgd", "casgd", "implicit", "aisgd", "sgdqn", "sgdqn-flawed"):
        make(solver, LinearClassifier(**settings, solver=solver), X, words)
    make("regressor", LinearRegressor(**settings, loss="huber"), X, y)


if __name__ == "__main__":
    main()
