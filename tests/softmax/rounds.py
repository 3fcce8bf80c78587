"""Rounds in one process, and looks into them."""

from functools import partial

import numpy as np
import scipy.sparse as sp
from scipy.special import logsumexp

from monro import SoftmaxClassifier
from monro.softmax.evaluate import losses
from monro.softmax.layout import class_major
from monro.softmax.neighbours import find_clusters
from monro.softmax.parts import Deal, Shard
from monro.softmax.placing import place_classes, sums_by_class
from monro.softmax.plans import make_plan
from monro.softmax.rounds import Examples, Local, Rounds, gathered
from monro.softmax.start import first_intercepts
from monro.softmax.stretch import some_rows
from monro.softmax.train import make_problem

CLASSES = 70  # five blocks, the last of them not full
RATE = 0.3
SAMPLED = ("block", "frequency", "neighbour")


def noisy_rows(n=400, d=12, n_classes=CLASSES, seed=0, density=0.5, spread=1.2):
    """Rows of frequent and rare classes that no hyperplane separates, each class there."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < density)
    W = spread * rng.standard_normal((n_classes, d))
    b = -0.03 * np.arange(n_classes)
    y = np.argmax(X @ W.T + b + rng.gumbel(size=(n, n_classes)), axis=1)
    y[:n_classes] = rng.permutation(n_classes)
    return X.astype(np.float32), y


def settings_of(sampling="all", **parameters):
    """Return the parameters of a SoftmaxClassifier that trains as the parts will."""
    usual = {"formulation": "raman", "learning_rate": RATE, "max_epochs": 15}
    return usual | {"sampling": "auto" if sampling == "all" else sampling} | parameters


def make_rounds(
    X, y, parts, shards=None, *, n_classes=CLASSES, seed=0, weight=None, crew=Local, changes=None,
    **parameters,
):  # fmt: skip
    """Return rounds that are set up; `changes` are made to the plan, the rest is for settings_of.

    How the classes are dealt out and which rows are in a shard does not depend on the seed.
    """
    rng = np.random.default_rng(1)
    estimator = SoftmaxClassifier(**settings_of(**parameters))
    sparse = sp.issparse(X)
    weight = np.ones(y.size) if weight is None else weight
    problem = make_problem(X, y.astype(np.int32), weight, n_classes, estimator.dtype)
    mean_sqnorm = float(problem.sqnorm.mean())
    plan = make_plan(estimator, n_classes, mean_sqnorm)._replace(**(changes or {}))
    sums = partial(sums_by_class, X, y, n_classes, rng)
    slots = place_classes(plan, problem.counts, rng, sums)
    clusters = None if sparse or plan.sampling != "neighbour" else find_clusters(X, rng)
    rows = np.array_split(rng.permutation(y.size), shards or 2 * parts)
    rounds = Rounds(
        crew(parts),
        Examples(
            [Shard(*(column[i] for column in problem[:4])) for i in rows],
            [i.size for i in rows],
            X.shape[1],
            sparse,
            X.nnz if sparse else X.size,
            mean_sqnorm,
            clusters,
        ),
        plan,
        Deal(slots, problem.counts, parts),
        first_intercepts(problem.counts, plan.damping > 0.0)[0],
        some_rows(X, y, weight, n_classes),
        seed,
    )
    rounds.set_up()
    rounds.begin()
    return rounds


def run(rounds, epochs=None):
    """Take epochs, by default all that are left; return the records."""
    left = rounds.plan.epochs - rounds.epochs
    return [rounds.epoch() for _ in range(left if epochs is None else epochs)]


def whole(rounds):
    return gathered(rounds.deal, rounds.parts_weights())


def log_loss(rounds, X, y):
    return losses(whole(rounds), X, y).mean()


def model_of(part):
    """Return the weights and intercepts of a part's classes."""
    K = part.classes.size
    W = class_major(part.state.W).astype(np.float64) * part.state.scale[:, None]
    return W[:K], part.state.bias[:K].astype(np.float64)


def everything(rounds):
    """Return copies of all that training changes."""
    told = {}
    for p, part in enumerate(rounds.crew.parts):
        told |= {f"{p}.{name}": getattr(part.state, name).copy() for name in ("W", "bias", "scale")}
        told |= {f"{p}.ell.{key}": ell.copy() for key, ell in part.ell.items()}
    return told | {f"u.{key}": u.copy() for key, u in enumerate(rounds.u)}


def assert_same_bits(one, other):
    assert one.keys() == other.keys()
    for name, array in one.items():
        np.testing.assert_array_equal(array, other[name], err_msg=name)


def sum_of_shares(parts, key, n):
    return logsumexp([part.share(key, n) for part in parts], axis=0)
