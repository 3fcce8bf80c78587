"""The solvers, against the same algorithms on dense weights."""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest

from monro.crf import sgd, sgdqn
from monro.crf.chain import most_runs
from monro.crf.encoding import Encoded
from monro.crf.feature_map import Vocabulary
from monro.crf.problem import ChainProblem, objective
from monro.crf.solvers import SOLVERS, choose_rate, make_solver
from monro.crf.trainer import ChainTrainer
from monro.crf.weights import as_tables
from monro.penalties import Ridge
from tests.crf.helpers import (
    all_sequences,
    log_partition,
    loss,
    numeric_gradient,
    random_chains,
    scores,
)
from tests.marks import thorough, thorough_unless

TAGS = 3
NOTHING = Vocabulary(None, None)


def make_problem(seed=0, lengths=(2, 3, 1, 2, 3), lam=0.1, **options):
    rng = np.random.default_rng(seed)
    data, y, state, pair = random_chains(rng, list(lengths), TAGS, **options)
    data = data._replace(values=data.values.astype(np.float32))
    weight = rng.random(len(lengths)) + 0.5
    return ChainProblem(data, y, weight / weight.mean(), len(state), len(pair), TAGS, Ridge(lam))


def learnable():
    """Return sentences whose tags follow from their features."""
    problem = make_problem(seed=2, lengths=(3,) * 50, lam=0.01)
    data = problem.data
    y = np.array([data.features[a] % TAGS if a < b else 0 for a, b in pairwise(data.indptr)])
    return problem._replace(y=y.astype(np.int32))


def slope_of(problem, s):
    """Return a function of dense weights: the slopes of sentence s, as one vector."""
    sizes = (problem.n_features * TAGS, problem.n_pairs * TAGS * TAGS)
    alone = np.where(np.arange(problem.size) == s, problem.weight, 0.0)

    def slope(w):
        state = w[: sizes[0]].reshape(-1, TAGS).copy()
        pair = w[sizes[0] :].reshape(-1, TAGS, TAGS).copy()
        parts = [
            numeric_gradient(lambda: loss(problem.data, problem.y, state, pair, alone), table, 1e-4)
            for table in (state, pair)
        ]
        return np.concatenate([part.ravel() for part in parts])

    return slope


def flat(weights):
    return np.concatenate([table.ravel() for table in as_tables(weights, TAGS)])


@pytest.mark.parametrize("smallest", [1e-3, 0.9])  # 0.9: multiplied out every few steps
@pytest.mark.parametrize("name", ["sgd", "asgd"])
def test_descent_is_that_of_dense_weights(name, smallest, monkeypatch):
    monkeypatch.setattr(sgd, "_SMALLEST_SCALE", smallest)
    problem = make_problem()
    solver = make_solver(problem, name, 0.3)
    state = solver.start()
    w = np.zeros(problem.n_features * TAGS + problem.n_pairs * TAGS**2)
    total, averaged, t = np.zeros_like(w), 0, 0
    rng = np.random.default_rng(1)
    for epoch in range(3):
        order = rng.permutation(problem.size)
        solver.sweep(order, state, epoch > 0, None)
        for s in order:
            eta = 0.3 / (1.0 + 0.1 * 0.3 * t) ** (1.0 if name == "sgd" else 0.75)
            w = w - eta * (slope_of(problem, s)(w) + 0.1 * w)
            t += 1
            if epoch > 0:
                total, averaged = total + w, averaged + 1
        np.testing.assert_allclose(flat(state.w), w, atol=2e-5)
    expected = w if name == "sgd" else total / averaged
    np.testing.assert_allclose(flat(solver.solution(state)), expected, atol=2e-5)
    assert state.t[0] == t


def exact_slope(problem, s, w):
    """Return the slope of sentence s at dense weights: all sequences of tags, one by one."""
    split = problem.n_features * TAGS
    state, pair = w[:split].reshape(-1, TAGS), w[split:].reshape(-1, TAGS, TAGS)
    first, stop = problem.data.starts[s], problem.data.starts[s + 1]
    sequences = all_sequences(*scores(problem.data, s, state, pair))
    log_Z = log_partition(sequences)
    found = -counts(problem, s, problem.y[first:stop])
    for score, tags in sequences:
        found += np.exp(score - log_Z) * counts(problem, s, tags)
    return problem.weight[s] * found


def counts(problem, s, tags):
    """Return the derivative of the score of these tags in each weight."""
    data, first = problem.data, problem.data.starts[s]
    state = np.zeros((problem.n_features, TAGS))
    pair = np.zeros((problem.n_pairs, TAGS, TAGS))
    for t, tag in enumerate(tags):
        here = slice(data.indptr[first + t], data.indptr[first + t + 1])
        np.add.at(state[:, tag], data.features[here], data.values[here])
        for f in data.pairs[data.pair_indptr[first + t] : data.pair_indptr[first + t + 1]]:
            pair[f, tags[t - 1], tag] += 1.0
    return np.concatenate([state.ravel(), pair.ravel()])


def ratios(problem, s, w, v, lam):
    """Return ``[g(w) - g(v)] / [w - v]`` of sentence s: λ where it has no feature, then clipped."""
    seen, moved = _occurs(problem, s), w - v
    change = exact_slope(problem, s, w) - exact_slope(problem, s, v)
    r = np.full(w.size, lam)
    r[seen] = 100.0 * lam
    known = seen & (moved != 0.0)
    r[known] = lam + change[known] / moved[known]
    return np.clip(r, lam, 100.0 * lam)


def figure_4_right(problem, sweeps, lam, eta0, skip):
    """Corrected SGD-QN, line by line; what ends a sweep is not measured but counts as λ."""
    w = np.zeros(problem.n_features * TAGS + problem.n_pairs * TAGS**2)
    v, B, count, update = w, np.full(w.size, eta0), skip, False
    for order in sweeps:
        for j, s in enumerate(order):
            if update:
                r = np.full(w.size, lam) if j == 0 else ratios(problem, s, w, v, lam)
                B = B / (1.0 + skip * B * r)
                update = False
            g = exact_slope(problem, s, w)
            count -= 1
            if count <= 0:
                count, update = skip, True
                v = w
                w = w - skip * lam * B * w
            w = w - B * g
    return w


def figure_4_left(problem, sweeps, lam, eta0, skip):
    """Flawed SGD-QN, line by line."""
    w = np.zeros(problem.n_features * TAGS + problem.n_pairs * TAGS**2)
    v, B, count, update, r, t0 = w, np.full(w.size, 1 / lam), skip, False, 2, 1 / lam / eta0
    for t, s in enumerate(np.concatenate(sweeps)):
        w = w - B * exact_slope(problem, s, w) / (t + t0)
        if update:
            B = B + 2.0 / r * (1.0 / ratios(problem, s, w, v, lam) - B)
            update, r = False, r + 1
        count -= 1
        if count <= 0:
            count, update = skip, True
            w = w - skip * lam / (t + t0) * B * w
            v = w
    return w


@thorough
@pytest.mark.parametrize("skip", thorough_unless(lambda skip: skip == 3, [1, 2, 3, 5]))
@pytest.mark.parametrize(
    ("name", "reference"),
    [
        ("sgdqn", figure_4_right),
        pytest.param("sgdqn-flawed", figure_4_left, marks=thorough),
    ],
)
def test_sgdqn_is_figure_4_on_dense_weights(name, reference, skip, monkeypatch):
    monkeypatch.setattr(sgdqn.QuasiNewton, "dtype", np.float64)
    lam, eta0 = 0.05, 0.4
    problem = make_problem(lengths=(2, 3, 1, 2, 3, 2, 2, 3, 1, 2), lam=lam, n_features=12)
    problem = problem._replace(data=problem.data._replace(values=problem.data.values.astype(float)))
    rng = np.random.default_rng(3)
    sweeps = [rng.permutation(problem.size) for _ in range(3)]
    solver = make_solver(problem, name, eta0, skip=skip)
    state = solver.start()
    for order in sweeps:
        solver.sweep(order, state, False, None)
    expected = reference(problem, sweeps, lam, eta0, skip)
    np.testing.assert_allclose(flat(solver.solution(state)), expected, rtol=0, atol=1e-10)


def _occurs(problem, s):
    """Return which weights belong to features of sentence s."""
    data = problem.data
    first, stop = data.starts[s], data.starts[s + 1]
    single = np.zeros(problem.n_features, bool)
    single[data.features[data.indptr[first] : data.indptr[stop]]] = True
    pair = np.zeros(problem.n_pairs, bool)
    pair[data.pairs[data.pair_indptr[first] : data.pair_indptr[stop]]] = True
    return np.concatenate([np.repeat(single, TAGS), np.repeat(pair, TAGS**2)])


def test_few_sentences_are_watched_and_the_last_objective_is_exact():
    problem = make_problem(lengths=(1, 2, 3, 2) * 200)
    solver = make_solver(problem, "asgd", 0.3)
    rng = np.random.default_rng(0)
    with ChainTrainer(solver, solver.start(), NOTHING, 0.0, shuffle=True, rng=rng) as trainer:
        trainer.epoch()
        assert trainer._watched.size == 200  # of 800
        exact = objective(problem, trainer.weights())
        assert trainer.exact_objective() == exact
        assert trainer.objective() == pytest.approx(exact, rel=0.1)
        assert trainer.objective() != exact


@pytest.mark.parametrize("name", thorough_unless(lambda name: name == "asgd", SOLVERS))
def test_all_solvers_come_to_the_same_optimum(name):
    problem = make_problem(seed=2, lengths=(2, 3, 3, 2, 3, 1, 2, 3) * 4, lam=0.05)
    solver = make_solver(problem, name, 0.3)
    rng = np.random.default_rng(0)
    with ChainTrainer(solver, solver.start(), NOTHING, 0.0, shuffle=True, rng=rng) as trainer:
        for _ in range(300):
            record = trainer.epoch()
        found = objective(problem, trainer.weights())
    assert record["epoch"] == 300
    state, pair = as_tables(trainer.weights(), TAGS)
    by_hand = loss(
        problem.data, problem.y, *(t.astype(float) for t in (state, pair)), problem.weight
    )
    ridge = 0.5 * problem.penalty.strength * float((state**2).sum() + (pair**2).sum())
    assert found == pytest.approx(by_hand / problem.size + ridge, rel=1e-5)
    assert found == pytest.approx(_optimum(problem), rel=0.01)


def _optimum(problem):
    """Return the objective of many epochs of averaged descent."""
    solver = make_solver(problem, "asgd", 0.1)
    rng = np.random.default_rng(1)
    with ChainTrainer(solver, solver.start(), NOTHING, 0.0, shuffle=True, rng=rng) as trainer:
        for _ in range(3000):
            trainer.epoch()
        return objective(problem, trainer.weights())


def test_threads_share_the_weights():
    problem = make_problem(seed=2, lengths=(2, 3, 3, 2, 3, 1, 2, 3) * 8, lam=0.05)
    solver = make_solver(problem, "asgd", 0.2, n_jobs=2)
    state = solver.start()
    rng = np.random.default_rng(0)
    with ThreadPoolExecutor(2) as pool:
        for epoch in range(60):
            solver.sweep(rng.permutation(problem.size), state, epoch > 0, pool)
    assert state.t[0] == 60 * problem.size
    assert objective(problem, state.solution()) == pytest.approx(_optimum(problem), rel=0.02)


def test_the_chosen_rate_is_neither_tiny_nor_too_large():
    problem = learnable()
    losses = {}
    for eta0 in (choose_rate(problem, "sgd", np.random.default_rng(0)), 1e-3, 1e3):
        solver = make_solver(problem, "sgd", eta0)
        losses[eta0] = solver.sweep(np.arange(problem.size), solver.start(), False, None)
    assert np.argmin(list(losses.values())) == 0


def test_features_of_large_values_get_a_small_rate():
    problem = learnable()
    large = problem._replace(data=problem.data._replace(values=1e4 * problem.data.values))
    rates = [choose_rate(each, "sgd", np.random.default_rng(0)) for each in (problem, large)]
    assert rates[0] > 0.01
    assert rates[1] < 1e-4 * rates[0]


@pytest.mark.parametrize("name", SOLVERS)
def test_more_features_and_tags_leave_the_old_weights(name):
    problem = make_problem()
    solver = make_solver(problem, name, 0.3)
    state = solver.start()
    solver.sweep(np.arange(problem.size), state, True, None)
    before = as_tables(solver.solution(state), TAGS)
    kept = np.array([0, 2, 4])
    sizes = {"n_features": problem.n_features + 2, "n_pairs": problem.n_pairs + 1, "n_tags": 5}
    wider = make_solver(problem._replace(**sizes), name, 1 / 7)
    state = wider.resume(state, kept)
    after = as_tables(state.solution(), 5)
    np.testing.assert_array_equal(after[0][:-2][:, kept], before[0])
    np.testing.assert_array_equal(after[1][:-1][:, kept[:, None], kept], before[1])
    assert np.count_nonzero(after[0]) == np.count_nonzero(before[0])
    if SOLVERS[name].learns_gains:
        first = as_tables(wider.start().gains, 5)[0]
        np.testing.assert_array_equal(as_tables(state.gains, 5)[0][-2:], first[-2:])


def test_runs_are_neighbours_with_the_same_pair_features():
    def runs(rows):
        lengths = [len(sentence) for sentence in rows]
        flat = [row for sentence in rows for row in sentence]
        return most_runs(
            Encoded(
                np.zeros(0),
                np.zeros(0, np.uint32),
                np.zeros(len(flat) + 1, np.int64),
                np.array([k for row in flat for k in row], np.uint32),
                np.concatenate([[0], np.cumsum([len(row) for row in flat])]),
                np.concatenate([[0], np.cumsum(lengths)]),
            )
        )

    assert runs([[[], [0], [0], [0]], [[], [0]]]) == 1
    assert runs([[[], [0], [1], [1], [0]]]) == 3
    assert runs([[[]], [[], [0, 1], [0, 2]]]) == 2
    assert runs([[[]]]) == 1
    assert runs([[[], [0], [], [0]]]) == 3
