"""Make golden model files of the current version, if they do not exist yet.

python -m tests.golden.make
"""

import json
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from monro import ChoiceModel, CRFTagger, LinearClassifier, LinearRegressor, SoftmaxClassifier
from monro.saving.container import VERSION

FOLDER = Path(__file__).parent


def make(name, model, X, version=VERSION):
    """Save a fitted model, unless the file exists: golden files are never updated."""
    path = FOLDER / f"v{version}-{name}.monro"
    if path.exists():
        return
    model.save(path)
    scores = model.decision_function(X) if hasattr(model, "classes_") else model.predict(X)
    solver = getattr(model, "solver_", model.solver)
    expected = {
        "X": X.tolist(),
        "predictions": model.predict(X).tolist(),
        "parameters": model.get_params(),
        "scores": scores.tolist(),
        "streams": solver not in ("dual", "lbfgs", "augment-reduce")
        and not name.endswith("sparsified"),
    }
    path.with_suffix(".json").write_text(json.dumps(expected, indent=1) + "\n")


def make_tagger(name, tagger, sentences):
    """Save a fitted tagger, unless the file exists."""
    path = FOLDER / "taggers" / f"v{VERSION}-{name}.monro"
    if path.exists():
        return
    tagger.save(path)
    expected = {
        "sentences": sentences,
        "tags": tagger.predict(sentences),
        "marginals": tagger.predict_marginals(sentences),
        "parameters": tagger.get_params(),
    }
    path.with_suffix(".json").write_text(json.dumps(expected, indent=1) + "\n")


def make_taggers():
    sentences = [["the", "old", "dog"], ["a", "dog", "barks"], ["barks"]]
    tags = [["B-NP", "I-NP", "I-NP"], ["B-NP", "I-NP", "O"], ["O"]]
    settings = {"random_state": 0, "max_epochs": 3, "constraints": "BIO", "c": 1.0}
    for solver in ("asgd", "sgdqn"):
        tagger = CRFTagger(**settings, solver=solver, template="U:%x[0,0]\nB\nB1:%x[0,0]")
        make_tagger(solver, tagger.fit(sentences, tags), sentences)
    features = [[{"w": word, "n": 0.5} for word in sentence] for sentence in sentences]
    make_tagger("features", CRFTagger(**settings, solver="sgd").fit(features, tags), features)
    hashed = CRFTagger(**settings, hash_bits=6).fit(sentences, tags)
    make_tagger("hashed", hashed, sentences)


def make_choices():
    """Save fitted choice models, unless the files exist."""
    frame = {
        "situation": [1, 1, 1, 2, 2, 3, 3, 3, 4, 4],
        "alternative": [
            "bus",
            "car",
            "train",
            "bus",
            "train",
            "bus",
            "car",
            "train",
            "car",
            "train",
        ],
        "price": [1.0, 2.0, 1.5, 2.0, 1.0, 1.0, 3.0, 2.5, 4.0, 3.0],
        "chosen": [1, 0, 0, 0, 1, 0, 1, 0, 0, 1],
    }
    for link in ("softmax", "probit"):
        path = FOLDER / "choices" / f"v{VERSION}-{link}.monro"
        if path.exists():
            continue
        model = ChoiceModel(link=link, alpha=0.1).fit(frame)
        model.save(path)
        expected = {
            "frame": frame,
            "probabilities": model.predict_proba(frame).tolist(),
            "errors": model.summary().std_error.tolist(),
            "parameters": model.get_params(),
        }
        path.with_suffix(".json").write_text(json.dumps(expected, indent=1) + "\n")


def main():
    make_taggers()
    make_choices()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3)).round(3)
    y = X @ [1.0, -2.0, 0.5]
    sign, words = (y > 0).astype(int), np.array(["cat", "dog", "eel"])[np.digitize(y, [-1, 1])]
    settings = {"random_state": 0, "max_epochs": 3, "alpha": 0.01}
    make("dual", LinearClassifier(**settings, loss="log", solver="dual").fit(X, sign), X)
    for solver in ("sgd", "asgd", "casgd", "implicit", "aisgd", "sgdqn", "asgdqn", "sgdqn-flawed"):
        make(solver, LinearClassifier(**settings, solver=solver).fit(X, words), X)
    make("regressor", LinearRegressor(**settings, loss="huber").fit(X, y), X)

    for solver in ("implicit", "umax", "nce", "lbfgs"):
        make(f"softmax-{solver}", SoftmaxClassifier(**settings, solver=solver).fit(X, words), X)
    make("softmax-binary", SoftmaxClassifier(**settings, dtype="float64").fit(X, sign), X)
    warm = SoftmaxClassifier(**settings, warm_start=True, classes=["ant", "cat", "dog", "eel"])
    make("softmax-warm", warm.fit(sp.csr_matrix(X), words), X)
    batches = SoftmaxClassifier(**settings).partial_fit(sp.csr_matrix(X), words)
    batches.partial_fit(X, np.roll(np.append(words[1:], "fox"), 1), sample_id=np.arange(40) ** 2)
    make("softmax-batches", batches, X)
    make("softmax-sparsified", SoftmaxClassifier(**settings).fit(X, words).sparsify(), X)
    large = np.where(np.abs(X) > 0.7, X, 0.0)
    observed = SoftmaxClassifier(**settings, weights="observed")
    make("softmax-observed", observed.fit(sp.csr_matrix(large), words), large, version=3)
    labels = np.column_stack([words == "cat", X[:, 0] > 0.5, X[:, 1] > 0.5])
    several = SoftmaxClassifier(**settings, weights="observed", classes=["cat", "dog", "eel"])
    make("softmax-independent", several.fit(sp.csr_matrix(large), labels), large, version=3)
    probit = {"solver": "augment-reduce", "link": "probit", "posterior": "gaussian"}
    make("softmax-probit", SoftmaxClassifier(**settings, **probit).fit(X, words), X)


if __name__ == "__main__":
    main()
