"""Choice models: against brute force, SciPy's own maximum, known coefficients, and bad frames."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime, minimize
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from monro import ChoiceModel, load
from monro.choice.frames import read_choices
from monro.choice.likelihood import Likelihood
from tests.marks import thorough_unless

PROPERTY = settings(deadline=None, derandomize=True, max_examples=25)
LINKS = ("softmax", "probit", "logistic")
by_link = pytest.mark.parametrize("link", thorough_unless(lambda link: link != "logistic", LINKS))
BETA = np.array([-1.0, 0.5])


def draw(link, size, rng):
    laws = {"softmax": rng.gumbel, "probit": rng.standard_normal, "logistic": rng.logistic}
    return laws[link](size=size)


def make_frame(n=400, n_alternatives=4, link="softmax", seed=0, missing=0.3, constants=None):
    """People choose by utility among the alternatives they have, one of which they always have."""
    rng = np.random.default_rng(seed)
    names = np.array([f"a{k}" for k in range(n_alternatives)])
    frame = pd.DataFrame(
        {
            "situation": np.repeat(np.arange(n), n_alternatives),
            "alternative": np.tile(names, n),
            "price": rng.normal(size=n * n_alternatives),
            "comfort": rng.normal(size=n * n_alternatives),
        }
    )
    utility = frame[["price", "comfort"]].to_numpy() @ BETA
    utility += np.tile(np.zeros(n_alternatives) if constants is None else constants, n)
    utility += draw(link, utility.size, rng)
    there = rng.random(utility.size) > missing
    there[rng.integers(n_alternatives, size=n) + n_alternatives * np.arange(n)] = True
    utility[~there] = -np.inf
    best = utility.reshape(n, -1).max(axis=1).repeat(n_alternatives)
    frame["chosen"] = utility == best
    return frame[there].sample(frac=1.0, random_state=seed)


def likelihood_of(frame, link="softmax", alpha=0.0, constants=True):
    keys = ("situation", "alternative", "chosen")
    choices, labels = read_choices(frame, *keys, ["price", "comfort"], None)
    return Likelihood(choices, labels.size if constants else 0, link, alpha)


# -------------------------------------------------------------------------------------- likelihood


@PROPERTY
@given(st.integers(0, 10**6), st.sampled_from(LINKS), st.booleans(), st.floats(0.0, 2.0))
def test_slopes_are_those_of_the_likelihood(seed, link, constants, alpha):
    likelihood = likelihood_of(make_frame(n=6, seed=seed), link, alpha, constants)
    theta = np.random.default_rng(seed).normal(size=likelihood.size)
    gradient = approx_fprime(theta, lambda t: likelihood(t)[0], 1e-6)
    np.testing.assert_allclose(likelihood(theta)[1], gradient, atol=2e-5)


@by_link
def test_probabilities_are_shares_of_simulated_choices(link):
    rng = np.random.default_rng(0)
    frame = make_frame(n=5, link=link)
    model = ChoiceModel(link=link).fit(make_frame(link=link))
    p = pd.Series(model.predict_proba(frame), index=frame.index)
    utility = frame[["price", "comfort"]] @ model.coef_
    utility += model.constants_[np.searchsorted(model.alternatives_, frame["alternative"])]
    for rows in frame.groupby("situation").groups.values():
        draws = utility[rows].to_numpy() + draw(link, (200_000, len(rows)), rng)
        shares = np.bincount(draws.argmax(axis=1), minlength=len(rows)) / len(draws)
        np.testing.assert_allclose(p[rows], shares, atol=0.005)
        assert p[rows].sum() == pytest.approx(1.0)


def test_a_conditional_logit_is_scipys_maximum():
    frame = make_frame()
    model = ChoiceModel().fit(frame)
    wide = frame.sort_values(["situation", "alternative"])
    X = np.column_stack(
        [wide[["price", "comfort"]]] + [wide["alternative"] == f"a{k}" for k in range(1, 4)]
    ).astype(float)
    parts = [np.flatnonzero(wide["situation"] == n) for n in range(400)]
    chosen = wide["chosen"].to_numpy()

    def loss(theta):
        s = X @ theta
        return -sum(log_softmax(s[rows])[chosen[rows]][0] for rows in parts)

    found = minimize(loss, np.zeros(5), method="BFGS", options={"gtol": 1e-4})
    theta = np.append(model.coef_, model.constants_[1:])
    np.testing.assert_allclose(theta, found.x, atol=1e-4)
    assert model.log_likelihood_ == pytest.approx(-found.fun)
    P = np.exp(np.concatenate([log_softmax(X[rows] @ theta) for rows in parts]))
    H = sum(
        X[r].T @ (np.diag(P[r]) - np.outer(P[r], P[r])) @ X[r]
        for r in (np.arange(r[0], r[-1] + 1) for r in parts)
    )
    np.testing.assert_allclose(model.covariance_, np.linalg.inv(H), rtol=1e-3, atol=1e-6)


@by_link
def test_known_coefficients_lie_within_their_errors(link):
    constants = np.array([0.0, 0.5, -0.5])
    frame = make_frame(n=4000, n_alternatives=3, link=link, constants=constants)
    model = ChoiceModel(link=link).fit(frame)
    table = model.summary()
    assert table.name == ["price", "comfort", "constant of a1", "constant of a2"]
    errors = (table.coefficient - np.append(BETA, constants[1:])) / table.std_error
    assert abs(errors).max() < 3.5
    assert (table.std_error < 0.1).all()
    assert "price" in str(table)
    actual = frame[frame["chosen"]]["alternative"].value_counts(normalize=True)
    shares = model.shares(frame)
    for label in ("a0", "a1", "a2"):
        assert shares[label] == pytest.approx(actual[label], abs=2e-3)
    assert model.score(frame) > 0.5


@pytest.mark.parametrize("link", thorough_unless(lambda link: link == "softmax", LINKS))
def test_draws_come_near_the_maximum(link):
    frame = make_frame(n=3000, n_alternatives=6, link=link)
    exact = ChoiceModel(link=link).fit(frame)
    drawn = ChoiceModel(
        link=link, solver="augment-reduce", alternatives_per_step=3, situations_per_step=100,
        learning_rate=0.05, random_state=0,
    ).fit(frame)  # fmt: skip
    assert drawn.log_loss(frame) < exact.log_loss(frame) + 0.01
    np.testing.assert_allclose(drawn.coef_, exact.coef_, atol=0.15)
    assert drawn.covariance_ is None
    with pytest.raises(ValueError, match="there are no standard errors"):
        drawn.summary()
    again = clone(drawn).fit(frame)
    assert again.coef_.tobytes() == drawn.coef_.tobytes()


def test_a_ridge_shrinks_attributes_but_no_constants():
    frame = make_frame(constants=np.array([0.0, 0.0, 0.0, 2.0]))
    model = ChoiceModel(alpha=100.0).fit(frame)
    assert abs(model.coef_).max() < 0.01
    assert model.constants_[3] > 1.0


# ------------------------------------------------------------------------------------------ frames


def test_every_kind_of_frame_gives_the_same_model():
    frame = make_frame(n=50)
    expected = ChoiceModel().fit(frame)
    others = [pl.from_pandas(frame), {name: frame[name].to_numpy() for name in frame}]
    for other in others:
        model = ChoiceModel().fit(other)
        assert model.coef_.tobytes() == expected.coef_.tobytes()
        np.testing.assert_array_equal(model.predict_proba(other), expected.predict_proba(frame))


def test_rows_keep_their_order():
    frame = make_frame(n=50)
    model = ChoiceModel().fit(frame)
    ordered = frame.sort_index()
    p = pd.Series(model.predict_proba(frame), index=frame.index)
    np.testing.assert_array_equal(p[ordered.index], model.predict_proba(ordered))
    best = model.predict(frame)
    assert best.sum() == 50
    assert (
        p[best].to_numpy() == p.groupby(frame["situation"]).max()[frame["situation"][best]]
    ).all()


def test_one_alternative_is_certain():
    frame = make_frame(n=50)
    model = ChoiceModel().fit(frame)
    alone = frame.groupby("situation").head(1)
    np.testing.assert_array_equal(model.predict_proba(alone), 1.0)


def test_without_constants_new_situations_need_only_attributes():
    frame = make_frame(n=200)
    model = ChoiceModel(constants=False).fit(frame)
    assert (model.constants_ == 0.0).all()
    assert model.summary().name == ["price", "comfort"]


@pytest.mark.parametrize("solver", ["likelihood", "augment-reduce"])
def test_a_saved_model_is_the_same(tmp_path, solver):
    frame = make_frame(n=60)
    model = ChoiceModel(link="probit", solver=solver, random_state=0, max_epochs=3).fit(frame)
    model.save(tmp_path / "model")
    same = load(tmp_path / "model")
    np.testing.assert_array_equal(same.predict_proba(frame), model.predict_proba(frame))
    assert same.get_params() == model.get_params()
    if solver == "likelihood":
        assert str(same.summary()) == str(model.summary())


def changed(**columns):
    return make_frame(n=30).sort_index().assign(**columns)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (np.zeros((3, 2)), "give a data frame"),
        (make_frame(n=5).drop(columns="chosen"), "there is no column 'chosen': the frame has"),
        (changed(price="cheap"), "column 'price' holds no numbers"),
        (changed(price=np.nan), "column 'price': row 0 holds nan"),
        (changed(chosen=2), "column 'chosen' holds 2: give 1 where chosen, else 0"),
        (changed(chosen=0), "situation 0 has 0 chosen alternatives: it needs one"),
        (changed(alternative="a0"), "situation 0 has alternative 'a0' twice"),
        (changed(price=1.0), "attribute 'price' is the same for all alternatives of every"),
        (make_frame(n=5)[:0], "the frame has no rows"),
    ],
)  # fmt: skip
def test_bad_frames_get_one_clear_line(frame, message):
    with pytest.raises((ValueError, TypeError), match=message):
        ChoiceModel().fit(frame)


def test_what_has_no_best_coefficients_says_so():
    frame = make_frame(n=200)
    never = frame[~((frame["alternative"] == "a3") & frame["chosen"])]
    never = never[never["situation"].isin(never[never["chosen"]]["situation"])]
    with pytest.raises(ValueError, match="alternative 'a3' is never chosen"):
        ChoiceModel().fit(never)
    best = frame.groupby("situation")["price"].transform("max") == frame["price"]
    certain = frame.assign(chosen=best)
    with pytest.raises(ValueError, match="without fail"):
        ChoiceModel().fit(certain)
    with pytest.raises(ValueError, match="do not tell all coefficients apart"):
        ChoiceModel().fit(frame.assign(cost=2.0 * frame["price"]))
    with pytest.raises(ValueError, match="nothing to fit"):
        ChoiceModel(attributes=[], constants=False).fit(frame)


def test_new_alternatives_and_unfitted_models_say_so():
    frame = make_frame(n=50)
    with pytest.raises(NotFittedError):
        ChoiceModel().predict_proba(frame)
    model = ChoiceModel().fit(frame)
    with pytest.raises(ValueError, match="an alternative the model does not know"):
        model.predict_proba(frame.assign(alternative="zeppelin"))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"link": "cauchit"}, "link='cauchit': choose one of"),
        ({"solver": "sgd"}, "solver='sgd': choose one of"),
        ({"alpha": -1.0}, "alpha=-1.0"),
        ({"max_epochs": 0}, "max_epochs=0"),
    ],
)
def test_bad_parameters_get_one_clear_line(parameters, message):
    with pytest.raises(ValueError, match=message):
        ChoiceModel(**parameters).fit(make_frame(n=5))
