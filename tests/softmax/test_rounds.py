"""Whole trainings on parts and shards, in one process: against one machine."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import logsumexp

import monro.softmax.rounds
from monro import SoftmaxClassifier
from monro.softmax.evaluate import losses, scores
from monro.softmax.layout import LANES, class_major
from monro.softmax.rates import choose_rate
from monro.softmax.solvers import rate_at
from tests.softmax.data import best
from tests.softmax.rounds import (
    RATE,
    SAMPLED,
    assert_same_bits,
    everything,
    log_loss,
    make_rounds,
    model_of,
    noisy_rows,
    run,
    settings_of,
    sum_of_shares,
    whole,
)


@pytest.fixture(scope="module")
def dense():
    return noisy_rows()


@pytest.fixture(scope="module")
def data(dense):
    return sp.csr_matrix(dense[0]), dense[1]


# ---------------------------------------------------------------------------------- whole trainings


def test_the_loss_told_is_that_of_each_row_once(data):
    X, y = data
    weight = np.random.default_rng(0).uniform(0.0, 2.0, size=y.size)
    rounds = make_rounds(X, y, 3, weight=weight)
    run(rounds, 3)
    expected = weight @ losses(whole(rounds), X, y) / y.size
    rounds.plan = rounds.plan._replace(eta0=1e-12)  # nothing moves
    rows = []
    record = rounds.epoch(rows.append)
    assert record["loss"] == pytest.approx(expected, rel=1e-4)
    assert record["epoch"] == rounds.epochs == 4
    assert record["rate"] == rate_at(rounds.plan, 3)
    assert sum(rows) == 3 * y.size == 3 * rounds.size


@pytest.fixture(scope="module")
def on_one_machine(data):
    """Return the loss of SoftmaxClassifier's fit for each kind of sampling."""
    X, y = data

    def loss(sampling):
        model = SoftmaxClassifier(**settings_of(sampling), random_state=0)
        return model.fit(X, y).log_loss(X, y)

    return {sampling: loss(sampling) for sampling in ("all", *SAMPLED)}


@pytest.mark.parametrize("sampling", ["all", *SAMPLED])
@pytest.mark.parametrize("parts", [1, 2, 3, 5])
def test_parts_learn_what_one_machine_learns(data, on_one_machine, sampling, parts):
    rounds = make_rounds(*data, parts, shards=6, sampling=sampling)
    records = run(rounds)
    # Of each part two blocks are drawn: more of them are seen than on one machine.
    assert log_loss(rounds, *data) <= 1.03 * on_one_machine[sampling]
    assert log_loss(rounds, *data) >= 0.97 * on_one_machine["all"]
    assert records[-1]["loss"] < records[0]["loss"]


@pytest.fixture(scope="module")
def ridge_optimum(data):
    X, y = data
    model = best(X, y, alpha=1e-3)
    return model.log_loss(X, y) + 1e-3 / 2 * (model.coef_.astype(np.float64) ** 2).sum()


@pytest.mark.parametrize("sampling", ["all", *SAMPLED])
@pytest.mark.parametrize("parts", [1, 2, 3])
def test_with_a_ridge_parts_come_near_the_optimum(data, ridge_optimum, sampling, parts):
    rounds = make_rounds(*data, parts, shards=6, sampling=sampling, alpha=1e-3, max_epochs=30)
    run(rounds)
    objective = log_loss(rounds, *data) + rounds.ridge()
    assert ridge_optimum * (1 - 1e-6) <= objective <= 1.02 * ridge_optimum


@pytest.mark.parametrize("sampling", ["frequency", "neighbour"])
def test_classes_without_examples_learn_that_they_are_not_it(data, sampling):
    X, y = data[0], data[1] % LANES  # one block of five
    rounds = make_rounds(X, y, 2, sampling=sampling)
    run(rounds, 3)
    part = rounds.crew.parts[1]
    assert part.counts.sum() == 0
    assert (np.abs(model_of(part)[0]).max(axis=1) > 0.0).all()


@pytest.mark.parametrize("sampling", ["all", "neighbour"])
def test_dense_rows_in_clusters_learn_what_one_machine_learns(dense, sampling):
    X, y = dense
    single = SoftmaxClassifier(**settings_of(sampling), random_state=0).fit(X, y).log_loss(X, y)
    rounds = make_rounds(X, y, 2, sampling=sampling)
    assert (rounds.examples.clusters is None) == (sampling == "all")
    run(rounds)
    assert log_loss(rounds, X, y) == pytest.approx(single, rel=0.03)


def test_the_last_epochs_meet_all_classes(data):
    ends = {}
    for exact_epochs in (0, 2):
        changes = {"exact_epochs": exact_epochs}
        rounds = make_rounds(*data, 2, sampling="frequency", learning_rate=30.0, changes=changes)
        followed = []
        while rounds.epochs < rounds.plan.epochs:
            rounds.epoch()
            plans = [part.plan for part in rounds.crew.parts]
            followed.append({(plan.sampling, plan.stiffness > 0.0) for plan in plans})
        sampled = rounds.plan.epochs - exact_epochs
        assert followed == [{("frequency", True)}] * sampled + [{("all", False)}] * exact_epochs
        assert all(np.isfinite(array).all() for array in everything(rounds).values())
        ends[exact_epochs] = log_loss(rounds, *data)
    assert ends[2] < 0.995 * ends[0]


def test_normalisers_are_exact_where_all_classes_begin_to_be_met(data):
    rounds = make_rounds(*data, 3, sampling="frequency", changes={"exact_epochs": 2})
    run(rounds, 13)
    rounds.plan = rounds.plan._replace(eta0=1e-12)  # nothing moves
    rounds.epoch()
    for key, shard in enumerate(rounds.examples.shards):
        truth = logsumexp(scores(whole(rounds), shard.X), axis=1)
        np.testing.assert_allclose(rounds.u[key], truth, rtol=0, atol=1e-4)


def test_the_same_seed_gives_the_same_bits(data):
    ends = []
    for seed in (0, 0, 1):
        rounds = make_rounds(*data, 2, sampling="neighbour", alpha=1e-3, seed=seed, max_epochs=4)
        run(rounds)
        ends.append(everything(rounds))
    assert_same_bits(ends[0], ends[1])
    assert all((ends[0][f"{p}.W"] != ends[2][f"{p}.W"]).any() for p in range(2))


def test_trials_leave_no_trace(data):
    fresh = make_rounds(*data, 2, sampling="frequency", max_epochs=4)
    run(fresh)
    tried = make_rounds(*data, 2, sampling="frequency", max_epochs=4)
    rate, trials = choose_rate(tried.at_rate, np.random.default_rng(0))
    assert trials > 2
    assert 0.01 < rate * tried.mean_sqnorm < 1000.0
    tried.at_rate(RATE)
    run(tried)
    assert_same_bits(everything(tried), everything(fresh))


def test_a_visit_of_some_rows_changes_no_others(data):
    rounds = make_rounds(*data, 2, shards=3)
    sizes = rounds.examples.sizes
    start = float(rounds.u[0][0])
    rows = [0, sizes[0] - 1, sizes[0], sizes[0] + sizes[1] + 5]  # of three shards
    told = rounds.visit(np.array(rows), RATE)
    moved = np.flatnonzero(np.concatenate(rounds.u) != start)
    np.testing.assert_array_equal(moved, rows)
    y = np.concatenate([shard.y for shard in rounds.examples.shards])[rows]
    # Later rows see what earlier ones have changed.
    assert told == pytest.approx((start - rounds.bias[y]).sum(), rel=0.1)


# ----------------------------------------------------------------------------- what has been learnt


@pytest.mark.parametrize(
    ("n_classes", "parts"), [(70, 1), (70, 2), (70, 3), (70, 5), (64, 3), (16, 1)]
)
def test_losses_are_those_of_the_weights_put_together(n_classes, parts):
    X, y = noisy_rows(n_classes=n_classes, seed=2)
    X = sp.csr_matrix(X)
    rounds = make_rounds(X, y, parts, n_classes=n_classes, alpha=1e-3)
    run(rounds, 3)
    together = whole(rounds)
    np.testing.assert_array_equal(together.slots, rounds.deal.slots)
    each = losses(together, X, y)
    np.testing.assert_allclose(rounds.losses(X, y), each, rtol=1e-9)
    judged = rounds.judged
    expected = judged.weight @ losses(together, judged.X, judged.codes)
    W = class_major(together.W).astype(np.float64) * together.scale[:, None]
    ridge = 1e-3 / 2 * (W**2).sum()
    assert rounds.ridge() == pytest.approx(ridge, rel=1e-5)
    assert ridge > 0.0
    assert rounds.judged_loss() == pytest.approx(expected + ridge, rel=1e-6)
    # and from the definition
    S = X @ W[together.slots].T + together.bias[together.slots]
    brute = logsumexp(S, axis=1) - S[np.arange(y.size), y]
    np.testing.assert_allclose(each, brute, rtol=1e-6)
    assert each.mean() < np.log(n_classes) - 0.3
    for p, part in enumerate(rounds.crew.parts):
        np.testing.assert_allclose(S[:, rounds.deal.classes(p)], part.scores(X), atol=1e-9)


def test_dense_weights_are_put_together_as_well(dense):
    X, y = dense
    rounds = make_rounds(X, y, 3)
    run(rounds, 2)
    np.testing.assert_allclose(rounds.losses(X, y), losses(whole(rounds), X, y), rtol=1e-9)


@pytest.mark.parametrize("sampling", ["all", "frequency"])
def test_stretched_parts_are_the_multiple(data, sampling, monkeypatch):
    X, _ = data
    rounds = make_rounds(*data, 3, sampling=sampling, alpha=1e-3, max_epochs=20)
    run(rounds, 4)
    before, shares = scores(whole(rounds), X), everything(rounds)

    def multiple(S, judged, cost):
        np.testing.assert_allclose(S, scores(whole(rounds), judged.X), rtol=1e-9, atol=1e-12)
        assert cost == rounds.ridge() > 0.0
        return 1.5

    monkeypatch.setattr(monro.softmax.rounds, "best_multiple", multiple)
    rounds._stretch()  # too early
    assert_same_bits(everything(rounds), shares)
    rounds.epochs = 12
    rounds._stretch()
    after = scores(whole(rounds), X)
    np.testing.assert_allclose(after, 1.5 * before, rtol=1e-5, atol=1e-5)
    for key, shard in enumerate(rounds.examples.shards):
        parts = rounds.crew.parts
        truth = logsumexp(scores(whole(rounds), shard.X), axis=1)
        np.testing.assert_allclose(
            rounds.u[key], sum_of_shares(parts, key, truth.size), rtol=0, atol=1e-9
        )
        if sampling == "all":
            np.testing.assert_allclose(rounds.u[key], truth, rtol=0, atol=1e-9)
        else:
            for p, part in enumerate(parts):
                np.testing.assert_array_equal(part.ell[key], 1.5 * shares[f"{p}.ell.{key}"])
    assert np.isfinite(rounds.epoch()["loss"])


def test_classes_that_can_be_told_apart_end_with_a_small_loss():
    rng = np.random.default_rng(0)
    y = np.append(np.arange(40), rng.integers(40, size=360))
    X = sp.csr_matrix((np.eye(40)[y] + 0.1 * rng.standard_normal((400, 40))).astype(np.float32))
    ends = {}
    for decay in (None, 0.9):  # with a decay weights are not stretched
        rounds = make_rounds(X, y, 2, n_classes=40, learning_rate=10.0, epoch_decay=decay)
        run(rounds)
        ends[decay] = log_loss(rounds, X, y)
        for key, u in enumerate(rounds.u):  # though nothing is left for the other part to hold
            total = sum_of_shares(rounds.crew.parts, key, u.size)
            np.testing.assert_allclose(u, total, rtol=0, atol=1e-6)
    assert ends[None] < 0.1 * ends[0.9]


# -------------------------------------------------------------------------------------- checkpoints


def resumed(rounds, folder, fresh):
    """Return fresh rounds that go on where others were saved."""
    rounds.save(folder)
    fresh.epochs = rounds.epochs
    fresh.set_up()
    fresh.load(folder)
    return fresh


@pytest.mark.parametrize("at", [1, 3, 4])
def test_a_checkpoint_is_where_the_rounds_were(data, tmp_path, at):
    def make():
        changes = {"exact_epochs": 3}
        return make_rounds(
            *data, 3, sampling="neighbour", alpha=1e-3, max_epochs=6, changes=changes
        )

    rounds, fresh = make(), make()
    run(rounds, at)
    resumed(rounds, tmp_path / "epoch", fresh)
    assert_same_bits(everything(fresh), everything(rounds))
    run(rounds, 2)
    run(fresh, 2)
    assert_same_bits(everything(fresh), everything(rounds))
