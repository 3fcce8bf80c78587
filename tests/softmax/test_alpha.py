"""alpha="auto" of SoftmaxClassifier."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

import monro
from monro import SoftmaxClassifier
from monro.fitting.splits import make_splits
from monro.softmax.training.planning import STREAM_ALPHA
from tests.callbacks import Recorder, expected_events, killed_after
from tests.marks import thorough
from tests.messages import message
from tests.softmax.data import FORMS, assert_same_bits, make_data

SHORT = {"random_state": 0, "max_epochs": 12}


def separable(n, d=60, seed=0):
    """More features than needed to separate the rows, though labels are noisy."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    scores = 1.5 * X[:, :3]
    return X, np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)


@pytest.mark.parametrize("form", FORMS)
def test_it_is_the_fit_with_the_strength_chosen(form):
    X, y = make_data()
    model = SoftmaxClassifier(alpha="auto", **SHORT).fit(form(X), y)
    same = SoftmaxClassifier(alpha=model.alpha_, scale=True, **SHORT).fit(form(X), y)

    assert_same_bits(model, same)
    assert model.plan_["alpha"] == model.alpha_
    strengths = [record["alpha"] for record in model.alpha_path_]
    assert strengths == sorted(strengths, reverse=True)
    assert strengths[-1] <= model.alpha_ <= strengths[0]
    assert all(record["standard_error"] > 0 for record in model.alpha_path_)
    assert all(record["nonzeros"] > 0 for record in model.alpha_path_)


def test_new_rows_are_predicted_as_well_as_with_a_search_by_scikit_learn():
    X, y = separable(900)
    X, new_X, y, new_y = train_test_split(X, y, test_size=500, random_state=0)
    peer = LogisticRegressionCV(
        Cs=10, cv=5, scoring="neg_log_loss", l1_ratios=(0.0,), use_legacy_attributes=False
    ).fit(X, y)
    best = log_loss(new_y, peer.predict_proba(new_X))
    auto = SoftmaxClassifier(alpha="auto", random_state=0).fit(X, y)
    none = SoftmaxClassifier(alpha=0.0, random_state=0).fit(X, y)

    assert auto.log_loss(new_X, new_y) < 1.03 * best
    assert none.log_loss(new_X, new_y) > 1.5 * best


def test_the_units_of_the_features_do_not_matter():
    X, y = make_data()
    units = 2.0 ** np.array([8, -6, 0, 3, -1])  # factors that round nothing
    one, many = (SoftmaxClassifier(alpha="auto", **SHORT).fit(c * X, y) for c in (1.0, units))
    assert many.alpha_path_ == one.alpha_path_
    np.testing.assert_array_equal(units * many.coef_, one.coef_)

    one, many = (
        SoftmaxClassifier(alpha="auto", scale=False, **SHORT).fit(c * X, y) for c in (1.0, 256.0)
    )
    assert many.alpha_ == pytest.approx(256.0**2 * one.alpha_, rel=1e-3)


def test_rows_of_weight_zero_are_not_judged_by():
    X, y = make_data()
    junk = np.random.default_rng(1).normal(size=(40, X.shape[1]))
    weight = np.r_[np.ones(y.size), np.zeros(40)]
    model = SoftmaxClassifier(alpha="auto", **SHORT).fit(X, y)
    other = SoftmaxClassifier(alpha="auto", **SHORT).fit(
        np.r_[X, junk], np.r_[y, np.zeros(40, int)], weight
    )
    assert other.alpha_ == model.alpha_


@thorough
def test_weights_count_in_the_judgement():
    # Half of the rows have labels at random. If only they count, no weak penalty is chosen.
    X, y = separable(600)
    rng = np.random.default_rng(0)
    noisy = np.arange(600) % 2 == 0
    y[noisy] = rng.integers(3, size=300)
    of_noise, of_signal = (
        SoftmaxClassifier(alpha="auto", **SHORT).fit(X, y, np.where(noisy, *weights)).alpha_
        for weights in ((1.0, 1e-3), (1e-3, 1.0))
    )
    assert of_noise > 3 * of_signal


@pytest.mark.parametrize("killed", [pytest.param(0, marks=thorough), 3])
def test_a_killed_fit_resumes_with_the_same_bits(tmp_path, killed):
    X, y = make_data()
    whole = SoftmaxClassifier(alpha="auto", **SHORT).fit(X, y)
    path = tmp_path / "checkpoint"
    killed_after(killed, SoftmaxClassifier(alpha="auto", **SHORT), X, y, path)
    resumed = SoftmaxClassifier(alpha="auto", **SHORT).fit(X, y, checkpoint=path)

    assert_same_bits(resumed, whole)
    assert resumed.alpha_ == whole.alpha_
    assert resumed.alpha_path_ == whole.alpha_path_


def test_a_file_keeps_the_path(tmp_path):
    X, y = make_data()
    model = SoftmaxClassifier(alpha="auto", **SHORT).fit(X, y)
    model.save(tmp_path / "model")
    loaded = monro.load(tmp_path / "model")

    assert loaded.alpha == "auto"
    assert loaded.alpha_ == model.alpha_
    assert loaded.alpha_path_ == model.alpha_path_
    assert_same_bits(loaded, model)


def test_another_fit_forgets_the_path():
    X, y = make_data()
    model = SoftmaxClassifier(alpha="auto", **SHORT).fit(X, y)
    model.set_params(alpha=0.1).fit(X, y)
    assert not hasattr(model, "alpha_")
    assert not hasattr(model, "alpha_path_")


def test_callbacks_see_the_last_fit_only():
    X, y = make_data()
    recorder = Recorder()
    SoftmaxClassifier(alpha="auto", random_state=0, max_epochs=3).set_callbacks(recorder).fit(X, y)
    assert recorder.events == expected_events(3)


def test_progress_shows_each_strength(capsys):
    X, y = make_data()
    SoftmaxClassifier(alpha="auto", verbose=1, **SHORT).fit(X, y)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("strength 1 of at most 17: alpha ")
    assert "implicit: epoch 1/12" in "\n".join(lines)


def test_a_matrix_of_labels_is_split_by_its_rows(monkeypatch):
    seen = []

    def recorded(rows, strata, numbers, *others, **options):
        seen.append(numbers)
        return make_splits(rows, strata, numbers, *others, **options)

    monkeypatch.setattr("monro.softmax.base.make_splits", recorded)
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(60, 4)), (rng.random((60, 5)) < 0.5).astype(int)
    SoftmaxClassifier(alpha="auto", **SHORT).fit(X, Y)
    # One example for each label of a row, in the order of the rows.
    np.testing.assert_array_equal(seen[0], np.nonzero(Y)[0])


@pytest.mark.parametrize(
    "parameters",
    [
        {"solver": "lbfgs"},
        {"solver": "umax"},
        {"solver": "augment-reduce", "posterior": "gaussian"},
        {"solver": "augment-reduce", "link": "probit"},
        {"early_stopping": True},
        {"tol": 1e-3},
        {"n_jobs": 2},
        {"classes": [0, 1, 2, 3, 9]},
        {"class_weight": "balanced"},
        {"fit_intercept": False},
    ],
    ids=str,
)
@thorough
def test_it_goes_with_other_parameters(parameters):
    X, y = make_data()
    model = SoftmaxClassifier(alpha="auto", **SHORT, **parameters).fit(X, y)
    assert np.isfinite(model.log_loss(X, y))
    assert model.alpha_ > 0


@thorough
def test_rows_of_a_store(tmp_path):
    X, y = make_data(n=4000)
    chunks = [(X[k : k + 500], y[k : k + 500]) for k in range(0, 4000, 500)]
    model = SoftmaxClassifier(alpha="auto", **SHORT).fit(iter(chunks))
    in_memory = SoftmaxClassifier(alpha="auto", **SHORT).fit(X, y)
    assert model.log_loss(X, y) == pytest.approx(in_memory.log_loss(X, y), rel=0.02)


def test_batches_take_a_fixed_strength_or_that_of_the_fit():
    X, y = make_data()
    model = SoftmaxClassifier(alpha="auto", **SHORT).partial_fit(X, y)
    assert_same_bits(model, SoftmaxClassifier(alpha=STREAM_ALPHA, **SHORT).partial_fit(X, y))
    # (A strength that was found for scaled columns is not for batches: test_scale.py.)
    model = SoftmaxClassifier(alpha="auto", scale=False, **SHORT).fit(X, y)
    number = SoftmaxClassifier(alpha=model.alpha_, **SHORT).fit(X, y)
    assert_same_bits(model.partial_fit(X, y), number.partial_fit(X, y))


def test_a_fit_that_continues_keeps_its_strength():
    X, y = make_data()
    model = SoftmaxClassifier(alpha="auto", warm_start=True, **SHORT).fit(X, y)
    path = model.alpha_path_
    assert model.fit(X, y).alpha_path_ is path


def test_rows_of_weight_zero_do_not_move_the_rows_of_cv():
    X, y = make_data(n=120)
    weight = np.where(np.arange(120) % 5 == 0, 0.0, 1.0)
    halves = [(np.arange(60), np.arange(60, 120)), (np.arange(60, 120), np.arange(60))]
    kept = np.flatnonzero(weight)
    among = [(np.flatnonzero(kept < 60), np.flatnonzero(kept >= 60))]
    among += [(judged, training) for training, judged in among]
    one = SoftmaxClassifier(alpha="auto", cv=halves, **SHORT).fit(X, y, weight)
    two = SoftmaxClassifier(alpha="auto", cv=among, **SHORT).fit(X[kept], y[kept])
    assert one.alpha_path_ == two.alpha_path_


def test_refusals():
    X, y = make_data(n=40)
    assert "alpha" in message(ValueError, SoftmaxClassifier(alpha="best").fit, X, y)
    assert "cv" in message(ValueError, SoftmaxClassifier(alpha="auto", cv="all").fit, X, y)
