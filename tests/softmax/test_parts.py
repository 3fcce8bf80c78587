"""Classes in parts, and visits of shards to them, against brute force."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import logsumexp

from monro import SoftmaxClassifier
from monro.softmax.layout import LANES, n_blocks
from monro.softmax.parts import Deal, Part
from monro.softmax.plans import make_plan
from monro.softmax.rounds import Examples, Local, Rounds
from monro.softmax.state import NOWHERE
from tests.softmax.rounds import (
    RATE,
    SAMPLED,
    assert_same_bits,
    everything,
    make_rounds,
    model_of,
    noisy_rows,
    run,
    settings_of,
    sum_of_shares,
)


@pytest.fixture(scope="module")
def data():
    X, y = noisy_rows()
    return sp.csr_matrix(X), y


# ---------------------------------------------------------------------------------- how it is dealt


@pytest.mark.parametrize(
    ("n_classes", "parts"), [(70, 1), (70, 2), (70, 3), (70, 5), (64, 3), (65, 5), (16, 1), (40, 3)]
)
def test_every_class_is_in_one_part(n_classes, parts):
    rng = np.random.default_rng(0)
    slots, counts = rng.permutation(n_classes), rng.integers(1, 9, size=n_classes)
    deal = Deal(slots, counts, parts)
    plan = make_plan(SoftmaxClassifier(**settings_of()), n_classes, 1.0)
    made = [Part(plan, deal, p, 3, sparse=True) for p in range(parts)]
    assert sorted(np.concatenate([deal.classes(p) for p in range(parts)])) == [*range(n_classes)]
    assert sorted(np.concatenate([deal.blocks(p) for p in range(parts)])) == [
        *range(n_blocks(n_classes))
    ]
    for p, part in enumerate(made):
        np.testing.assert_array_equal(part.classes, deal.classes(p))
        np.testing.assert_array_equal(part.counts, counts[part.classes])
        assert np.isin(slots[part.classes] // LANES, deal.blocks(p)).all()
        # within the part classes lie as they do in the whole, a block beside the next one
        np.testing.assert_array_equal(part.slots[part.classes], np.arange(part.classes.size))
        np.testing.assert_array_equal(
            deal.blocks(p)[part.slots[part.classes] // LANES], slots[part.classes] // LANES
        )
        elsewhere = np.setdiff1d(np.arange(n_classes), part.classes)
        assert (part.slots[elsewhere] == -1).all()
        assert (part.state.bias[part.classes.size :] == np.float32(NOWHERE)).all()
    sizes = [part.state.bias.size // LANES for part in made]
    assert sum(sizes) == n_blocks(n_classes)
    assert max(sizes) - min(sizes) <= 1


@given(data=st.data(), parts=st.integers(1, 12), epoch=st.integers(0, 50))
def test_all_pairs_meet_once_and_no_shard_is_in_two_places(data, parts, epoch):
    shards = data.draw(st.integers(parts, 40))
    examples = Examples([None] * shards, [1] * shards, 1, True, 1, 1.0, None)
    rounds = Rounds(Local(parts), examples, None, None, np.zeros(1), None, 0)
    meetings = rounds._meetings(epoch)
    assert sorted((p, key) for _, p, key in meetings) == [
        (p, key) for p in range(parts) for key in range(shards)
    ]
    for t in range(shards):
        now = [(p, key) for when, p, key in meetings if when == t]
        assert len({p for p, _ in now}) == len({key for _, key in now}) == len(now) == parts
    assert [t for t, _, _ in meetings] == sorted(t for t, _, _ in meetings)
    assert meetings == rounds._meetings(epoch)
    if shards > 4:
        assert any(meetings != rounds._meetings(other) for other in range(epoch + 1, epoch + 4))


# ---------------------------------------------------------------------------------------- one visit


def proximal(W, b, x, own, o, *, eta, weight, damping, alpha):
    """Return the weights and intercepts of one step: the normaliser is eliminated.

    Elsewhere lies all that has score o; own is None where the example's class lies there.
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


@pytest.mark.parametrize("alpha", [0.0, 0.01])
@pytest.mark.parametrize("here", [True, False])
def test_a_step_solves_the_problem_with_one_class_that_does_not_move(here, alpha):
    X, y = noisy_rows(n=120, d=5, n_classes=40, seed=3)
    weight = np.random.default_rng(0).uniform(0.5, 1.5, size=y.size)
    rounds = make_rounds(
        sp.csr_matrix(X.astype(np.float64)), y, 2, n_classes=40, dtype="float64", alpha=alpha,
        weight=weight,
    )  # fmt: skip
    run(rounds, 1)
    key, (part, other) = 1, rounds.crew.parts
    shard = rounds.examples.shards[key]
    eta, u = 3.0, rounds.u[key]
    rows = np.flatnonzero(((part.slots[shard.y] >= 0) == here) & (shard.sqnorm > 0.0))[:3]
    for i in rows:
        o = other.share(key, u.size)[i]
        W, b = model_of(part)
        slot = part.slots[shard.y[i]] if here else None
        x = shard.X[i].toarray().ravel()
        V, c = proximal(
            W, b, x, slot, o, eta=eta, weight=shard.weight[i], damping=part.plan.damping,
            alpha=alpha,
        )  # fmt: skip
        before, shares = u.copy(), part.share(key, u.size).copy()
        u, loss = part.visit(key, shard, u, eta, 0, np.array([i]))
        new_W, new_b = model_of(part)
        assert np.abs(new_W - W).max() > 1e-3
        np.testing.assert_allclose(new_W, V, rtol=0, atol=2e-5)
        np.testing.assert_allclose(new_b, c, rtol=0, atol=2e-5)
        ell = logsumexp(new_W @ x + new_b)
        assert part.share(key, u.size)[i] == pytest.approx(ell, abs=1e-5)
        assert u[i] == pytest.approx(np.logaddexp(ell, o), abs=1e-5)
        others = np.arange(u.size) != i
        np.testing.assert_array_equal(u[others], before[others])
        np.testing.assert_array_equal(part.share(key, u.size)[others], shares[others])
        # the ridge's share is taken first
        shrunk = W @ x / (1 + eta * alpha) + b
        expected = np.logaddexp(logsumexp(shrunk), o) - shrunk[slot] if here else 0.0
        assert loss == pytest.approx(shard.weight[i] * expected, abs=1e-5)


def test_a_visit_with_all_classes_leaves_the_whole_normaliser(data):
    rounds = make_rounds(*data, parts=3, shards=4)
    parts = rounds.crew.parts
    for p, key in [(0, 1), (1, 1), (2, 1), (0, 1), (0, 3)]:
        shard, u = rounds.examples.shards[key], rounds.u[key]
        elsewhere = logsumexp([parts[q].share(key, u.size) for q in range(3) if q != p], axis=0)
        before = u.copy()
        rounds._visit(p, key, RATE, 0)
        np.testing.assert_array_equal(u, before)  # another may still need it
        after = rounds.u[key]
        assert (after != before).all()
        assert (after > elsewhere).all()
        share = parts[p].share(key, u.size)
        np.testing.assert_allclose(after, np.logaddexp(elsewhere, share), rtol=0, atol=1e-6)
        # most of the last step's weights are those of the steps before
        truth = parts[p].judge(shard.X, shard.y)[0]
        assert np.abs(truth - share).mean() < 0.5
    for key in (0, 2):
        np.testing.assert_array_equal(rounds.u[key], rounds.u[key][0])  # no visit, no change


@pytest.mark.parametrize("sampling", ["all", "frequency", "neighbour"])
def test_visits_of_different_shards_to_different_parts_commute(data, sampling):
    ends = []
    for order in [(0, 1), (1, 0)]:
        rounds = make_rounds(*data, parts=2, shards=3, sampling=sampling, alpha=1e-3)
        run(rounds, 1)
        meetings = [(0, 2), (1, 0)]
        for k in order:
            p, key = meetings[k]
            rounds._visit(p, key, RATE, [7, key, p])
        ends.append(everything(rounds))
    assert_same_bits(*ends)


class Watching(Local):
    """Looks at every visit."""

    visits = 0

    def call(self, number, method, *args, returns=1):
        if method != "visit":
            return super().call(number, method, *args, returns=returns)
        key, _, before = args[:3]
        n = before.size
        others = [part for p, part in enumerate(self.parts) if p != number]
        elsewhere = sum_of_shares(others, key, n)
        u, loss = super().call(number, method, *args, returns=returns)
        share = self.parts[number].share(key, n)
        assert np.isfinite(u).all()
        assert np.isfinite(share).all()
        assert np.isfinite(loss)
        assert (u > elsewhere).all()
        np.testing.assert_allclose(u, np.logaddexp(elsewhere, share), rtol=0, atol=1e-5)
        self.visits += 1
        return u, loss


@pytest.mark.parametrize("rate", [RATE, 30.0])
@pytest.mark.parametrize("sampling", SAMPLED)
def test_shares_add_up_to_the_normaliser(data, sampling, rate):
    rounds = make_rounds(*data, parts=3, sampling=sampling, learning_rate=rate, crew=Watching)
    for record in run(rounds, 12):  # the weights are stretched, too, after the eighth
        assert np.isfinite(record["loss"])
        for key, u in enumerate(rounds.u):
            total = sum_of_shares(rounds.crew.parts, key, u.size)
            np.testing.assert_allclose(u, total, rtol=0, atol=1e-5)
    assert rounds.crew.visits == 12 * 3 * 6
    assert all(np.isfinite(array).all() for array in everything(rounds).values())
