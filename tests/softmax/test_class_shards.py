"""Class shards, and visits of row shards to them, against brute force."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import logsumexp

from monro import SoftmaxClassifier
from monro.blocks import LANES, MASKED_SCORE, n_blocks
from monro.fitting.worker_pool import LocalWorkerPool
from monro.softmax.sharded.class_shards import ClassShard, Partition
from monro.softmax.sharded.sharded_trainer import schedule_visits
from monro.softmax.training.planning import make_plan
from tests.marks import thorough
from tests.softmax.sharded import (
    RATE,
    SAMPLED,
    assert_same_bits,
    everything,
    make_trainer,
    model_of,
    noisy_rows,
    run,
    settings_of,
    total_mass,
)


@pytest.fixture(scope="module")
def data():
    X, y = noisy_rows()
    return sp.csr_matrix(X), y


# ------------------------------------------------------------------------ partition and schedule


@pytest.mark.parametrize(
    ("n_classes", "n_shards"),
    [(70, 1), (70, 2), (70, 3), (70, 5), (64, 3), (65, 5), (16, 1), (40, 3)],
)
def test_every_class_is_in_one_shard(n_classes, n_shards):
    rng = np.random.default_rng(0)
    slots, counts = rng.permutation(n_classes), rng.integers(1, 9, size=n_classes)
    partition = Partition(slots, counts, n_shards)
    plan = make_plan(SoftmaxClassifier(**settings_of()), n_classes, 1.0)
    made = [ClassShard(plan, partition, p, 3, sparse=True) for p in range(n_shards)]
    classes = np.concatenate([partition.classes(p) for p in range(n_shards)])
    blocks = np.concatenate([partition.blocks(p) for p in range(n_shards)])
    assert sorted(classes) == [*range(n_classes)]
    assert sorted(blocks) == [*range(n_blocks(n_classes))]
    for p, shard in enumerate(made):
        np.testing.assert_array_equal(shard.classes, partition.classes(p))
        np.testing.assert_array_equal(shard.counts, counts[shard.classes])
        assert np.isin(slots[shard.classes] // LANES, partition.blocks(p)).all()
        # in a shard the classes have the same order as in the model, block after block
        np.testing.assert_array_equal(shard.slots[shard.classes], np.arange(shard.classes.size))
        np.testing.assert_array_equal(
            partition.blocks(p)[shard.slots[shard.classes] // LANES], slots[shard.classes] // LANES
        )
        remote = np.setdiff1d(np.arange(n_classes), shard.classes)
        assert (shard.slots[remote] == -1).all()
        assert (shard.state.bias[shard.classes.size :] == np.float32(MASKED_SCORE)).all()
    sizes = [shard.state.bias.size // LANES for shard in made]
    assert sum(sizes) == n_blocks(n_classes)
    assert max(sizes) - min(sizes) <= 1


@given(data=st.data(), workers=st.integers(1, 12), seed=st.integers(0, 50))
def test_every_row_shard_visits_every_class_shard_once_and_is_never_in_two_places(
    data, workers, seed
):
    n = data.draw(st.integers(workers, 40))
    make = lambda seed: schedule_visits(n, workers, np.random.default_rng(seed))  # noqa: E731
    visits = make(seed)
    assert sorted((visit.worker, visit.key) for visit in visits) == [
        (worker, key) for worker in range(workers) for key in range(n)
    ]
    for t in range(n):
        now = [visit for visit in visits if visit.round == t]
        assert len({v.worker for v in now}) == len({v.key for v in now}) == len(now) == workers
    assert [visit.round for visit in visits] == sorted(visit.round for visit in visits)
    if n > 4:
        assert any(visits != make(other) for other in range(seed + 1, seed + 4))


# ---------------------------------------------------------------------------------------- one visit


def proximal(W, b, x, own, o, *, eta, weight, damping, alpha):
    """Return the weights and intercepts of one step: the normaliser is eliminated.

    o is the remote mass; own is None where the example's class is remote.
    """

    def cost(theta):
        V, c = theta[: W.size].reshape(W.shape), theta[W.size :]
        s = V @ x + c
        v = np.logaddexp(logsumexp(s), o)
        force = np.exp(s - v)
        if own is not None:
            force[own] -= 1.0
        force *= eta * weight
        value = eta * weight * (v - (o if own is None else s[own]))
        value += ((V - W) ** 2).sum() / 2 + ((c - b) ** 2).sum() / (2 * damping)
        value += eta * alpha / 2 * (V**2).sum()
        slope_V = np.outer(force, x) + V - W + eta * alpha * V
        return value, np.concatenate([slope_V.ravel(), force + (c - b) / damping])

    start = np.concatenate([W.ravel(), b])
    options = {"maxiter": 5000, "maxfun": 10_000, "ftol": 1e-16, "gtol": 1e-9}
    found = minimize(cost, start, jac=True, method="L-BFGS-B", options=options).x
    return found[: W.size].reshape(W.shape), found[W.size :]


@thorough
@pytest.mark.parametrize("alpha", [0.0, 0.01])
@pytest.mark.parametrize("here", [True, False])
def test_a_step_solves_the_problem_with_one_class_that_does_not_move(here, alpha):
    X, y = noisy_rows(n=120, d=5, n_classes=40, seed=3)
    weight = np.random.default_rng(0).uniform(0.5, 1.5, size=y.size)
    trainer = make_trainer(
        sp.csr_matrix(X.astype(np.float64)), y, 2, n_classes=40, dtype="float64", alpha=alpha,
        weight=weight,
    )  # fmt: skip
    run(trainer, 1)
    key, (shard, other) = 1, trainer.workers.objects
    rows = trainer.rows.shards[key]
    eta, u = 3.0, trainer.u[key]
    is_here = shard.slots[rows.y] >= 0
    for i in np.flatnonzero((is_here == here) & (rows.sqnorm > 0.0))[:3]:
        o = other.local_mass(key, u.size)[i]
        W, b = model_of(shard)
        slot = shard.slots[rows.y[i]] if here else None
        x = rows.X[i].toarray().ravel()
        V, c = proximal(
            W, b, x, slot, o, eta=eta, weight=rows.weight[i], damping=shard.plan.damping,
            alpha=alpha,
        )  # fmt: skip
        before, masses = u.copy(), shard.local_mass(key, u.size).copy()
        u, loss = shard.visit(key, rows, u, eta, 0, np.array([i]))
        new_W, new_b = model_of(shard)
        assert np.abs(new_W - W).max() > 1e-3
        np.testing.assert_allclose(new_W, V, rtol=0, atol=2e-5)
        np.testing.assert_allclose(new_b, c, rtol=0, atol=2e-5)
        ell = logsumexp(new_W @ x + new_b)
        assert shard.local_mass(key, u.size)[i] == pytest.approx(ell, abs=1e-5)
        assert u[i] == pytest.approx(np.logaddexp(ell, o), abs=1e-5)
        others = np.arange(u.size) != i
        np.testing.assert_array_equal(u[others], before[others])
        np.testing.assert_array_equal(shard.local_mass(key, u.size)[others], masses[others])
        # the ridge shrinks the weights first
        shrunk = W @ x / (1 + eta * alpha) + b
        expected = np.logaddexp(logsumexp(shrunk), o) - shrunk[slot] if here else 0.0
        assert loss == pytest.approx(rows.weight[i] * expected, abs=1e-5)


def test_a_visit_with_all_classes_keeps_the_normaliser_exact(data):
    trainer = make_trainer(*data, 3, n_row_shards=4)
    shards = trainer.workers.objects
    for p, key in [(0, 1), (1, 1), (2, 1), (0, 1), (0, 3)]:
        rows, u = trainer.rows.shards[key], trainer.u[key]
        others = [shards[q] for q in range(3) if q != p]
        remote = total_mass(others, key, u.size)
        before = u.copy()
        trainer._visit(p, key, RATE, 0)
        np.testing.assert_array_equal(u, before)  # another may still need it
        after = trainer.u[key]
        assert (after != before).all()
        assert (after > remote).all()
        local = shards[p].local_mass(key, u.size)
        np.testing.assert_allclose(after, np.logaddexp(remote, local), rtol=0, atol=1e-6)
        # most of the last step's weights are those of the steps before
        truth = shards[p].exact_masses(rows.X, rows.y)[0]
        assert np.abs(truth - local).mean() < 0.5
    for key in (0, 2):
        np.testing.assert_array_equal(trainer.u[key], trainer.u[key][0])  # no visit, no change


@pytest.mark.parametrize("sampling", ["all", "frequency", "neighbour"])
def test_visits_of_different_row_shards_to_different_class_shards_commute(data, sampling):
    ends = []
    for order in [(0, 1), (1, 0)]:
        trainer = make_trainer(*data, 2, n_row_shards=3, sampling=sampling, alpha=1e-3)
        run(trainer, 1)
        pairs = [(0, 2), (1, 0)]
        for k in order:
            p, key = pairs[k]
            trainer._visit(p, key, RATE, [7, key, p])
        ends.append(everything(trainer))
    assert_same_bits(*ends)


class Watching(LocalWorkerPool):
    """Checks the normalisers after every visit, and counts visits."""

    visits = 0

    def call(self, worker, method, *args, returns=1):
        if method != "visit":
            return super().call(worker, method, *args, returns=returns)
        key, _, before = args[:3]
        n = before.size
        others = [shard for k, shard in enumerate(self.objects) if k != worker]
        remote = total_mass(others, key, n)
        u, loss = super().call(worker, method, *args, returns=returns)
        local = self.objects[worker].local_mass(key, n)
        assert np.isfinite(u).all()
        assert np.isfinite(local).all()
        assert np.isfinite(loss)
        assert (u > remote).all()
        np.testing.assert_allclose(u, np.logaddexp(remote, local), rtol=0, atol=1e-5)
        self.visits += 1
        return u, loss


@pytest.mark.parametrize("rate", [RATE, 30.0])
@pytest.mark.parametrize("sampling", SAMPLED)
def test_masses_add_up_to_the_normaliser(data, sampling, rate):
    trainer = make_trainer(*data, 3, sampling=sampling, learning_rate=rate, pool=Watching)
    for record in run(trainer, 12):  # scores are scaled, too, after the eighth
        assert np.isfinite(record["loss"])
        for key, u in enumerate(trainer.u):
            total = total_mass(trainer.workers.objects, key, u.size)
            np.testing.assert_allclose(u, total, rtol=0, atol=1e-5)
    assert trainer.workers.visits == 12 * 3 * 6
    assert all(np.isfinite(array).all() for array in everything(trainer).values())
