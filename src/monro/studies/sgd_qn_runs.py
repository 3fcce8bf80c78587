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
from monro.fitting.order import visiting_order
from monro.linear.algorithms.sgdqn import (
    GainState,
    IfSlopeChanged,
    QuasiNewton,
    curvature,
    spread,
)
from monro.linear.algorithms.sgdqn_flawed import FlawedQuasiNewton
from monro.linear.algorithms.solver_base import Options, Solver
from monro.linear.examples import Examples, look_ahead
from monro.linear.objective import objective
from monro.linear.problem import Problem
from monro.linear.solvers import SOLVERS, make_solver
from monro.losses import Hinge, Log, Loss, SquaredHinge, derivative, value
from monro.penalties import Penalty, Ridge, strong_convexity
from monro.rows import Array, add_scaled, as_rows, dot
from monro.studies import data
from monro.studies.monitoring import sweep_monitored
from monro.studies.study import Tick, Trial

NAMES = {"sgd": "SVMSGD2", "sgdqn-flawed": "SGD-QN, flawed", "sgdqn": "SGD-QN, corrected"}
FIX = "SGD-QN, straightforward fix"
CHANGED = "SGD-QN, corrected, only changes of slope"
AVERAGED = {"asgd": "ASGD", "asgdqn": "SGD-QN, corrected, averaged"}
LOSSES = {"hinge": Hinge(), "squared hinge": SquaredHinge(), "log": Log()}
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


class OnlyChangesOfSlope(QuasiNewton):
    """The corrected solver, with the other reading of Figure 4."""

    rule = IfSlopeChanged()


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


def make_learner(problem: Problem, learner: str, rate: float) -> Solver:
    """Return the solver of that title."""
    if learner == FIX:
        return Straightforward(problem, rate)
    if learner == CHANGED:
        return OnlyChangesOfSlope(problem, SOLVERS["sgdqn"], Options(eta0=rate))
    (name,) = (name for name, title in (NAMES | AVERAGED).items() if title == learner)
    return make_solver(problem, name, "bottou", rate)


def _problem(rows: data.Data, loss: Loss, lam: float) -> Problem:
    n, d = rows.X.shape
    examples = Examples(as_rows(rows.X), rows.y.astype(np.float64), np.ones(n))
    return Problem(loss, Ridge(lam), examples, False, d)


def _cost_and_error(problem: Problem, rows: data.Data, w: Array) -> dict[str, Any]:
    error = float(np.mean((rows.test_X @ w > 0) != (rows.test_y > 0)))
    return {"cost": objective(problem, w, 0.0), "error": error}


def _curve(rows: data.Data, trial: Trial, tick: Tick) -> dict[str, Any]:
    """Return cost, test error and gains at evenly spaced points of each epoch."""
    settings = trial.settings
    problem = _problem(rows, Log(), settings["lam"])
    learner, points = settings["learner"], settings["points"]
    solver: Any = make_learner(problem, learner, settings["rate"])

    def measure(state: Any) -> dict[str, Any]:
        found = _cost_and_error(problem, rows, solver.solution(state)[0])
        if learner != NAMES["sgd"]:
            scale = 1.0 if learner == NAMES["sgdqn"] else 1.0 / (state.t[0] + solver.t0)
            found["gains"] = (scale * state.gains[:SHOWN]).tolist()
        return found

    size = {"epochs": settings["epochs"], "points": points, "seed": settings["seed"]}
    curve = sweep_monitored(problem, solver, measure, tick, **size)
    if trial.part != "gains":  # only the last ones are used
        curve["gains"] = curve.get("gains", [])[-1:]
    return curve


def _at_rates(rows: data.Data, settings: dict[str, Any], tick: Tick) -> dict[str, Any]:
    """Return the cost after the last epoch, and the test error, at each of several rates."""
    problem = _problem(rows, LOSSES[settings["loss"]], settings["lam"])
    most = 10.0 * objective(problem, np.zeros(problem.n_features), 0.0)
    found: dict[str, list[Any]] = {"cost": [], "error": []}
    for k, rate in enumerate(settings["rates"]):
        solver = make_learner(problem, settings["learner"], rate)
        rng = np.random.default_rng(settings["seed"])
        state = solver.start()
        for _ in range(settings["epochs"]):
            state = solver.begin_epoch(state)
            solver.sweep(visiting_order(rows.y.size, rng), state)
        with np.errstate(all="ignore"):  # it may have diverged
            ended = _cost_and_error(problem, rows, solver.solution(state)[0])
        for name, number in ended.items():
            found[name].append(number if ended["cost"] < most else None)
        tick((k + 1) / len(settings["rates"]))
    return found


def run(trial: Trial, tick: Tick) -> dict[str, Any]:
    """Run one learner; return its curves, or what it ends with at several rates."""
    have = trial.settings
    if trial.part == "crf":
        return _tagging(have, tick)
    rows = _dense(have["version"], have["rows"]) if trial.data == "covtype" else data.rcv1()
    if trial.part == "losses":
        return _at_rates(rows, have, tick)
    return _curve(rows, trial, tick)


# ---------------------------------------------------------------------------------------- sentences


@cache
def _sentences(n: int) -> tuple[CRFTagger, Any, Any, Sentences]:
    """Return a tagger that has the features, both parts encoded, and the test sentences."""
    train, test = data.conll2000()
    if n:
        train, test = (Sentences(each.tokens[:n], each.tags[:n]) for each in (train, test))
    tagger = CRFTagger(template=TEMPLATE, c=1.0, cutoff=3, max_epochs=1, random_state=0)
    tagger.fit(train.tokens, train.tags)
    # One test sentence has a tag that does not occur in training: it has no loss.
    tags = {tag for sentence in train.tags for tag in sentence}
    known = [k for k, sentence in enumerate(test.tags) if tags >= set(sentence)]
    known_sentences = [[part[k] for k in known] for part in test]
    return tagger, tagger._problem(*train), tagger._problem(*known_sentences), test


def _tagging(settings: dict[str, Any], tick: Tick) -> dict[str, Any]:
    tagger, problem, test_problem, test = _sentences(settings["sentences"])
    (name,) = (name for name, title in NAMES.items() if title == settings["learner"])
    epochs = settings["epochs"]
    solver = make_chain_solver(problem, name, settings["rate"])
    solver.sweep(np.arange(4), solver.start(), False, None)  # compiles
    found: dict[str, Any] = {
        name: [] for name in ("epochs", "seconds", "objective", "test_loss", "fb1")
    }
    rng = np.random.default_rng(settings["seed"])
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
