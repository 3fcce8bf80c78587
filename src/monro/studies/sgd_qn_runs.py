"""The runs of the SGD-QN study: linear models with their gains, and taggers of sentences."""

from functools import cache
from typing import Any

import numpy as np

from monro import CRFTagger
from monro._jit import kernel
from monro.crf import problem as chain_problem
from monro.crf.feature_map import Vocabulary
from monro.crf.solvers import make_solver as make_chain_solver
from monro.crf.trainer import ChainTrainer
from monro.data.conll import Sentences
from monro.linear.algorithms.sgdqn import GainState, curvature, spread
from monro.linear.algorithms.sgdqn_flawed import FlawedQuasiNewton
from monro.linear.algorithms.solver_base import Options
from monro.linear.examples import Examples, look_ahead
from monro.linear.objective import objective
from monro.linear.problem import Problem
from monro.linear.solvers import SOLVERS, make_solver
from monro.losses import Log, Loss, derivative, value
from monro.penalties import Penalty, Ridge, strong_convexity
from monro.rows import Array, add_scaled, as_rows, dot
from monro.studies import data
from monro.studies.monitoring import sweep_monitored
from monro.studies.study import Tick, Trial

NAMES = {"sgd": "SVMSGD2", "sgdqn-flawed": "SGD-QN, flawed", "sgdqn": "SGD-QN, corrected"}
FIX = "SGD-QN, straightforward fix"
SHOWN = 10  # features whose gains are recorded: the numeric ones of covtype
TEMPLATE = "\n".join(  # that of CRF++'s example for this task
    [
        *(f"U0{k}:%x[{k - 2},0]" for k in range(5)),
        "U05:%x[-1,0]/%x[0,0]",
        "U06:%x[0,0]/%x[1,0]",
        *(f"U1{k}:%x[{k - 2},1]" for k in range(5)),
        *(f"U1{k + 5}:%x[{k - 2},1]/%x[{k - 1},1]" for k in range(4)),
        *(f"U2{k}:%x[{k - 2},1]/%x[{k - 1},1]/%x[{k},1]" for k in range(3)),
        "B",
    ]
)


# -------------------------------------------------------------------------- the straightforward fix


@kernel
def straightforward_epoch(
    loss: Loss,
    penalty: Penalty,
    examples: Examples,
    order: Array,
    skip: float,
    penalised: int,
    t0: float,
    state: GainState,
) -> float:
    """Flawed SGD-QN, but with a fresh example for the curvature (section 5.1): gains oscillate.

    As in Figure 4 (left), a curvature is bounded from above only, so a small one makes a gain jump.
    """
    lam = strong_convexity(penalty)
    rows = examples.rows
    w = state.w
    v = state.v
    B = state.gains
    total = 0.0
    for j in range(order.size):
        look_ahead(examples, order, j, w)
        i = order[j]
        y = examples.y[i]
        p = dot(rows, i, w)
        total += value(loss, p, y)
        slope = derivative(loss, p, y)
        rate = 1.0 / (state.t[0] + t0)

        if state.measure[0] != 0.0:
            change = slope - derivative(loss, dot(rows, i, v), y)
            spread(rows, i, state.x)
            pull = 2.0 / (2.0 + state.measured[0])
            for k in range(w.size):
                r = curvature(lam, change, state.x[k], w[k] - v[k])
                B[k] += pull * (1.0 / r - B[k])
            state.measured[0] += 1.0
            state.measure[0] = 0.0

        state.countdown[0] -= 1.0
        if state.countdown[0] <= 0.0:
            state.countdown[0] = skip
            state.measure[0] = 1.0
            for k in range(w.size):
                v[k] = w[k]
            for k in range(penalised):
                w[k] *= 1.0 - skip * lam * rate * B[k]
        if slope != 0.0:
            add_scaled(rows, i, -rate * slope, B, w)
        state.t[0] += 1.0
    return total


class Straightforward(FlawedQuasiNewton):
    """The flawed solver with the kernel of the straightforward fix."""

    def __init__(self, problem: Problem, eta0: float):
        super().__init__(problem, SOLVERS["sgdqn-flawed"], Options(eta0=eta0))

    def sweep(self, order: Array, state: GainState, sigma: float = 1.0) -> float:
        """Step on each example of `order`."""
        loss, penalty, width = self.problem.loss, self.problem.penalty, self.problem.n_features
        return straightforward_epoch(
            loss, penalty, self.examples, order, self.skip, width, self.t0, state
        )


# ------------------------------------------------------------------------------------ linear models


def every_tenth(d: int) -> Array:
    """Return a mask of the features, of d, that are multiplied by twelve."""
    tenth: Array = np.arange(1, d + 1) % 10 == 0
    return tenth


@cache
def _dense(version: str, rows: int) -> data.Data:
    """Return covtype as section 5.3 prepares Delta."""
    full = data.covtype_unit()
    some = data.first(full, rows) if rows else full
    if version == "deconditioned":
        scale = np.where(every_tenth(some.X.shape[1]), 12.0, 1.0)
        some = some._replace(X=some.X * scale, test_X=some.test_X * scale)
    return some


def _curve(
    rows: data.Data, lam: float, learner: str, rate: float, epochs: int, points: int, tick: Tick
) -> dict[str, Any]:
    """Return cost, test error and gains at evenly spaced points of each epoch."""
    n, d = rows.X.shape
    examples = Examples(as_rows(rows.X), rows.y.astype(np.float64), np.ones(n))
    problem = Problem(Log(), Ridge(lam), examples, False, d)
    if learner == FIX:
        solver: Any = Straightforward(problem, rate)
    else:
        (name,) = (name for name, title in NAMES.items() if title == learner)
        solver = make_solver(problem, name, "bottou", rate)

    def measure(state: Any) -> dict[str, Any]:
        w, _ = solver.solution(state)
        error = float(np.mean((rows.test_X @ w > 0) != (rows.test_y > 0)))
        found = {"cost": objective(problem, w, 0.0), "error": error}
        if learner != NAMES["sgd"]:
            scale = 1.0 if learner == NAMES["sgdqn"] else 1.0 / (state.t[0] + solver.t0)
            found["gains"] = (scale * state.gains[:SHOWN]).tolist()
        return found

    curve = sweep_monitored(problem, solver, measure, tick, epochs=epochs, points=points)
    if points == 1:  # only the last gains are used
        curve["gains"] = curve.get("gains", [])[-1:]
    return curve


def run(trial: Trial, tick: Tick) -> dict[str, Any]:
    """Run one learner at one rate; return its curves."""
    have = trial.settings
    if trial.part == "crf":
        return _tagging(have["learner"], have["rate"], have["epochs"], have["sentences"], tick)
    rows = _dense(have["version"], have["rows"]) if trial.data == "covtype" else data.rcv1()
    size = have["epochs"], have["points"]
    return _curve(rows, have["lam"], have["learner"], have["rate"], *size, tick)


# ---------------------------------------------------------------------------------------- sentences


@cache
def _sentences(n: int) -> tuple[CRFTagger, Any, Any, Sentences]:
    """Return a tagger that has the features, both parts encoded, and the test sentences."""
    train, test = data.conll2000()
    if n:
        train, test = (Sentences(each.tokens[:n], each.tags[:n]) for each in (train, test))
    tagger = CRFTagger(template=TEMPLATE, cutoff=3, max_epochs=1, random_state=0)
    tagger.fit(train.tokens, train.tags)
    # One test sentence has a tag that does not occur in training: it has no loss.
    tags = {tag for sentence in train.tags for tag in sentence}
    known = [k for k, sentence in enumerate(test.tags) if tags >= set(sentence)]
    known_sentences = [[part[k] for k in known] for part in test]
    return tagger, tagger._problem(*train), tagger._problem(*known_sentences), test


def _tagging(learner: str, rate: float, epochs: int, n: int, tick: Tick) -> dict[str, Any]:
    tagger, problem, test_problem, test = _sentences(n)
    (name,) = (name for name, title in NAMES.items() if title == learner)
    solver = make_chain_solver(problem, name, rate)
    solver.sweep(np.arange(4), solver.start(), False, None)  # compiles
    found: dict[str, Any] = {
        name: [] for name in ("epochs", "seconds", "objective", "test_loss", "fb1")
    }
    rng = np.random.default_rng(0)
    model = Vocabulary(tagger._fitted.features, tagger.classes_), tagger._fitted.sentences
    with ChainTrainer(solver, solver.start(), *model, shuffle=True, rng=rng) as trainer:
        for epoch in range(epochs):
            record = trainer.epoch()
            weights = trainer.weights()
            tagger._fitted = tagger._fitted._replace(weights=weights)
            found["epochs"].append(epoch + 1)
            found["seconds"].append(record["seconds"])
            found["objective"].append(chain_problem.objective(problem, weights))
            found["test_loss"].append(chain_problem.mean_loss(test_problem, weights))
            found["fb1"].append(100.0 * tagger.score(test.tokens, test.tags))
            tick((epoch + 1) / epochs)
    return found
