"""Whole fits on shards of classes and rows, all in one process, against the plain estimator."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import logsumexp

import monro.softmax.sharded.sharded_trainer
from monro import SoftmaxClassifier
from monro.blocks import LANES
from monro.fitting.epochs import train
from monro.fitting.run import LabelledRows, Run
from monro.softmax.kernel.layout import class_major
from monro.softmax.metrics import losses
from monro.softmax.model import scores
from monro.softmax.sharded.sharded_trainer import join_class_shards
from monro.softmax.training.rate import choose_rate
from tests.marks import thorough
from tests.softmax.data import best
from tests.softmax.sharded import (
    RATE,
    SAMPLED,
    assert_same_bits,
    everything,
    join,
    log_loss,
    make_trainer,
    model_of,
    noisy_rows,
    run,
    settings_of,
    total_mass,
)


@pytest.fixture(scope="module")
def dense():
    return noisy_rows()


@pytest.fixture(scope="module")
def data(dense):
    return sp.csr_matrix(dense[0]), dense[1]


# --------------------------------------------------------------------------------------- whole fits


def test_the_loss_counts_each_row_once(data):
    X, y = data
    weight = np.random.default_rng(0).uniform(0.0, 2.0, size=y.size)
    trainer = make_trainer(X, y, 3, weight=weight)
    run(trainer, 3)
    expected = weight @ losses(join(trainer), X, y) / y.size
    trainer.plan = trainer.plan._replace(eta0=1e-12)  # nothing moves
    rows = []
    record = trainer.epoch(rows.append)
    assert record["loss"] == pytest.approx(expected, rel=1e-4)
    assert record["epoch"] == trainer.epochs == 4
    assert record["rate"] == trainer.plan.rate_at(3)
    assert sum(rows) == 3 * y.size == 3 * trainer.size


@pytest.fixture(scope="module")
def on_one_machine(data):
    """Return the loss of SoftmaxClassifier's fit for each kind of sampling."""
    X, y = data

    def loss(sampling):
        model = SoftmaxClassifier(**settings_of(sampling), random_state=0)
        return model.fit(X, y).log_loss(X, y)

    return {sampling: loss(sampling) for sampling in ("all", *SAMPLED)}


@pytest.mark.parametrize("sampling", ["all", *SAMPLED])
@pytest.mark.parametrize("n_shards", [1, 2, 3, 5])
def test_class_shards_learn_what_one_machine_learns(data, on_one_machine, sampling, n_shards):
    trainer = make_trainer(*data, n_shards, n_row_shards=6, sampling=sampling)
    records = run(trainer)
    # Two blocks are drawn from each class shard: more in all than on one machine.
    assert log_loss(trainer, *data) <= 1.03 * on_one_machine[sampling]
    assert log_loss(trainer, *data) >= 0.97 * on_one_machine["all"]
    assert records[-1]["loss"] < records[0]["loss"]


@pytest.fixture(scope="module")
def ridge_optimum(data):
    X, y = data
    model = best(X, y, alpha=1e-3)
    return model.log_loss(X, y) + 1e-3 / 2 * (model.coef_.astype(np.float64) ** 2).sum()


@pytest.mark.parametrize("sampling", ["all", *SAMPLED])
@pytest.mark.parametrize("n_shards", [1, 2, 3])
def test_with_a_ridge_the_objective_is_near_the_optimum(data, ridge_optimum, sampling, n_shards):
    settings = {"sampling": sampling, "alpha": 1e-3, "max_epochs": 30}
    trainer = make_trainer(*data, n_shards, n_row_shards=6, **settings)
    run(trainer)
    objective = log_loss(trainer, *data) + trainer.ridge()
    assert ridge_optimum * (1 - 1e-6) <= objective <= 1.02 * ridge_optimum


@pytest.mark.parametrize("sampling", ["frequency", "neighbour"])
def test_classes_without_examples_learn_that_they_are_not_it(data, sampling):
    X, y = data[0], data[1] % LANES  # one block of five
    trainer = make_trainer(X, y, 2, sampling=sampling)
    run(trainer, 3)
    shard = trainer.workers.objects[1]
    assert shard.counts.sum() == 0
    assert (np.abs(model_of(shard)[0]).max(axis=1) > 0.0).all()


@thorough
@pytest.mark.parametrize("sampling", ["all", "neighbour"])
def test_dense_rows_in_clusters_learn_what_one_machine_learns(dense, sampling):
    X, y = dense
    single = SoftmaxClassifier(**settings_of(sampling), random_state=0).fit(X, y).log_loss(X, y)
    trainer = make_trainer(X, y, 2, sampling=sampling)
    assert (trainer.rows.clusters is None) == (sampling == "all")
    run(trainer)
    assert log_loss(trainer, X, y) == pytest.approx(single, rel=0.03)


def test_the_last_epochs_use_all_classes(data):
    ends = {}
    for exact_epochs in (0, 2):
        changes = {"exact_epochs": exact_epochs}
        trainer = make_trainer(*data, 2, sampling="frequency", learning_rate=30.0, changes=changes)
        active = []
        while trainer.epochs < trainer.plan.epochs:
            trainer.epoch()
            plans = [shard.plan for shard in trainer.workers.objects]
            active.append({(plan.sampling, plan.stiffness > 0.0) for plan in plans})
        sampled = trainer.plan.epochs - exact_epochs
        assert active == [{("frequency", True)}] * sampled + [{("all", False)}] * exact_epochs
        assert all(np.isfinite(array).all() for array in everything(trainer).values())
        ends[exact_epochs] = log_loss(trainer, *data)
    assert ends[2] < 0.995 * ends[0]


def test_normalisers_are_exact_where_steps_begin_to_use_all_classes(data):
    trainer = make_trainer(*data, 3, sampling="frequency", changes={"exact_epochs": 2})
    run(trainer, 13)
    trainer.plan = trainer.plan._replace(eta0=1e-12)  # nothing moves
    trainer.epoch()
    for key, rows in enumerate(trainer.rows.shards):
        truth = logsumexp(scores(join(trainer), rows.X), axis=1)
        np.testing.assert_allclose(trainer.u[key], truth, rtol=0, atol=1e-4)


def test_the_same_seed_gives_the_same_bits(data):
    ends = []
    for seed in (0, 0, 1):
        trainer = make_trainer(*data, 2, sampling="neighbour", alpha=1e-3, seed=seed, max_epochs=4)
        run(trainer)
        ends.append(everything(trainer))
    assert_same_bits(ends[0], ends[1])
    assert all((ends[0][f"{p}.W"] != ends[2][f"{p}.W"]).any() for p in range(2))


def test_the_epoch_loop_of_all_fits_takes_its_epochs(data):
    X, y = data
    estimator = SoftmaxClassifier(**settings_of("frequency", max_epochs=4, tol=1e-9))
    trainer, alone = (make_trainer(X, y, 2, sampling="frequency", max_epochs=4) for _ in range(2))
    train(Run(estimator, LabelledRows(X, y, np.ones(y.size)), 0), trainer)
    records = run(alone)
    assert_same_bits(everything(trainer), everything(alone))
    assert [record["loss"] for record in estimator.history_] == [r["loss"] for r in records]
    assert estimator.history_[-1]["log_loss"] == alone.sample_loss()
    joined = join_class_shards(*estimator._fitted)
    np.testing.assert_array_equal(joined.W, join(alone).W)


def test_trials_leave_no_trace(data):
    fresh = make_trainer(*data, 2, sampling="frequency", max_epochs=4)
    run(fresh)
    tried = make_trainer(*data, 2, sampling="frequency", max_epochs=4)
    rate, trials = choose_rate(tried.restart, np.random.default_rng(0))
    assert trials > 2
    assert 0.01 < rate * tried.mean_sqnorm < 1000.0
    tried.restart(RATE)
    run(tried)
    assert_same_bits(everything(tried), everything(fresh))


def test_a_visit_of_some_rows_changes_no_others(data):
    trainer = make_trainer(*data, 2, n_row_shards=3)
    sizes = trainer.rows.sizes
    start = float(trainer.u[0][0])
    rows = [0, sizes[0] - 1, sizes[0], sizes[0] + sizes[1] + 5]  # of three shards
    loss = trainer.visit(np.array(rows), RATE)
    moved = np.flatnonzero(np.concatenate(trainer.u) != start)
    np.testing.assert_array_equal(moved, rows)
    y = np.concatenate([each.y for each in trainer.rows.shards])[rows]
    # Later rows see what earlier ones have changed.
    assert loss == pytest.approx((start - trainer.bias[y]).sum(), rel=0.1)


# ----------------------------------------------------------------------------- what has been learnt


@pytest.mark.parametrize(
    ("n_classes", "n_shards"), [(70, 1), (70, 2), (70, 3), (70, 5), (64, 3), (16, 1)]
)
def test_losses_are_those_of_the_joined_weights(n_classes, n_shards):
    X, y = noisy_rows(n_classes=n_classes, seed=2)
    X = sp.csr_matrix(X)
    trainer = make_trainer(X, y, n_shards, n_classes=n_classes, alpha=1e-3)
    run(trainer, 3)
    together = join(trainer)
    np.testing.assert_array_equal(together.slots, trainer.partition.slots)
    each = losses(together, X, y)
    np.testing.assert_allclose(trainer.losses(X, y), each, rtol=1e-9)
    sample = trainer.sample
    expected = sample.weight @ losses(together, sample.X, sample.codes)
    W = class_major(together.W).astype(np.float64) * together.scale[:, None]
    ridge = 1e-3 / 2 * (W**2).sum()
    assert trainer.ridge() == pytest.approx(ridge, rel=1e-5)
    assert ridge > 0.0
    assert trainer.sample_loss() == pytest.approx(expected + ridge, rel=1e-6)
    # and from the definition
    S = X @ W[together.slots].T + together.bias[together.slots]
    brute = logsumexp(S, axis=1) - S[np.arange(y.size), y]
    np.testing.assert_allclose(each, brute, rtol=1e-6)
    assert each.mean() < np.log(n_classes) - 0.3
    for p, shard in enumerate(trainer.workers.objects):
        np.testing.assert_allclose(S[:, trainer.partition.classes(p)], shard.scores(X), atol=1e-9)


@thorough
def test_dense_weights_are_joined_as_well(dense):
    X, y = dense
    trainer = make_trainer(X, y, 3)
    run(trainer, 2)
    np.testing.assert_allclose(trainer.losses(X, y), losses(join(trainer), X, y), rtol=1e-9)


@pytest.mark.parametrize("sampling", ["all", "frequency"])
def test_scaled_class_shards_have_the_scaled_scores(data, sampling, monkeypatch):
    X, _ = data
    trainer = make_trainer(*data, 3, sampling=sampling, alpha=1e-3, max_epochs=20)
    run(trainer, 4)
    before, masses = scores(join(trainer), X), everything(trainer)

    def scale(S, sample, cost):
        np.testing.assert_allclose(S, scores(join(trainer), sample.X), rtol=1e-9, atol=1e-12)
        assert cost == trainer.ridge() > 0.0
        return 1.5

    monkeypatch.setattr(monro.softmax.sharded.sharded_trainer, "best_training_scale", scale)
    trainer._scale_scores(4)  # too early
    assert_same_bits(everything(trainer), masses)
    trainer.epochs = 12
    trainer._scale_scores(12)
    after = scores(join(trainer), X)
    np.testing.assert_allclose(after, 1.5 * before, rtol=1e-5, atol=1e-5)
    shards = trainer.workers.objects
    for key, rows in enumerate(trainer.rows.shards):
        truth = logsumexp(scores(join(trainer), rows.X), axis=1)
        np.testing.assert_allclose(
            trainer.u[key], total_mass(shards, key, truth.size), rtol=0, atol=1e-9
        )
        if sampling == "all":
            np.testing.assert_allclose(trainer.u[key], truth, rtol=0, atol=1e-9)
        else:
            for p, shard in enumerate(shards):
                np.testing.assert_array_equal(shard.ell[key], 1.5 * masses[f"{p}.ell.{key}"])
    assert np.isfinite(trainer.epoch()["loss"])


def test_separable_classes_end_with_a_small_loss():
    rng = np.random.default_rng(0)
    y = np.append(np.arange(40), rng.integers(40, size=360))
    X = sp.csr_matrix((np.eye(40)[y] + 0.1 * rng.standard_normal((400, 40))).astype(np.float32))
    ends = {}
    for decay in (None, 0.9):  # with a decay scores are not scaled
        trainer = make_trainer(X, y, 2, n_classes=40, learning_rate=10.0, epoch_decay=decay)
        run(trainer)
        ends[decay] = log_loss(trainer, X, y)
        for key, u in enumerate(trainer.u):  # though the other class shard has hardly any mass
            total = total_mass(trainer.workers.objects, key, u.size)
            np.testing.assert_allclose(u, total, rtol=0, atol=1e-6)
    assert ends[None] < 0.1 * ends[0.9]


# -------------------------------------------------------------------------------------- checkpoints


def resumed(trainer, folder, fresh):
    """Return a fresh trainer that resumes where another one was saved."""
    trainer.save(folder)
    fresh.epochs = trainer.epochs
    fresh.set_up()
    fresh.load(folder)
    return fresh


@pytest.mark.parametrize("at", [1, 3, 4])
def test_a_checkpoint_resumes_with_the_same_bits(data, tmp_path, at):
    def make():
        changes = {"exact_epochs": 3}
        return make_trainer(
            *data, 3, sampling="neighbour", alpha=1e-3, max_epochs=6, changes=changes
        )

    trainer, fresh = make(), make()
    run(trainer, at)
    resumed(trainer, tmp_path / "epoch", fresh)
    assert_same_bits(everything(fresh), everything(trainer))
    run(trainer, 2)
    run(fresh, 2)
    assert_same_bits(everything(fresh), everything(trainer))
