"""Classes in parts and examples in shards, in one process: against brute force and one machine."""

from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import logsumexp

import monro.softmax.rounds
from monro import SoftmaxClassifier
from monro.softmax.evaluate import losses, scores
from monro.softmax.layout import LANES, class_major, n_blocks
from monro.softmax.neighbours import find_clusters
from monro.softmax.parts import Deal, Part, Shard
from monro.softmax.placing import place_classes, sums_by_class
from monro.softmax.plans import make_plan
from monro.softmax.rates import choose_rate
from monro.softmax.rounds import Examples, Local, Rounds, gathered
from monro.softmax.solvers import rate_at
from monro.softmax.start import first_intercepts
from monro.softmax.state import NOWHERE
from monro.softmax.stretch import some_rows
from monro.softmax.train import make_problem

from .data import best

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


@pytest.fixture(scope="module")
def dense():
    return noisy_rows()


@pytest.fixture(scope="module")
def data(dense):
    return sp.csr_matrix(dense[0]), dense[1]


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


def model_of(part):
    K = part.classes.size
    W = class_major(part.state.W).astype(np.float64) * part.state.scale[:, None]
    return W[:K], part.state.bias[:K].astype(np.float64)


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


@pytest.mark.parametrize(
    "at",
    [1, 3, 4],
)
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
