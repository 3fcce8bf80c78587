"""ChoiceModel: conditional logit, probit and logistic of alternatives with attributes."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from scipy.optimize import minimize
from sklearn.utils import check_random_state

from monro.checks.parameters import check_choice, check_flag, check_integer, check_number
from monro.choice.fitted import FittedChoice
from monro.choice.frames import Choices, columns_of, read_choices
from monro.choice.likelihood import MOST_PARAMETERS, Likelihood, covariance
from monro.choice.stochastic import fit_stochastic
from monro.links import LINKS
from monro.rows import Array

# Rows up to which "auto" maximises the exact likelihood.
_MOST_ROWS = {"softmax": 20_000_000, "probit": 1_000_000, "logistic": 1_000_000}
_ITERATIONS = 1000
_RATE = 0.02
_CERTAIN = 1e-6  # a mean loss below it means that the attributes separate the choices


class ChoiceModel(FittedChoice):
    """A choice among alternatives, each with attributes of its own, where some may be unavailable.

    The alternative of highest utility is chosen: ``x·β + constant + noise``. Gumbel noise makes the
    conditional logit, Gaussian noise the multinomial probit with independent errors.

    Parameters
    ----------
    link : {"softmax", "probit", "logistic"}
        The distribution of the noise: Gumbel, standard normal, standard logistic.
    situation, alternative, chosen : str
        Columns of the frame: the situation of a row, its alternative, and whether that was chosen
        (1 or True, else 0). An alternative without a row is not available.
    attributes : list of str, optional
        Columns that utility depends on; by default all others.
    constants : bool
        Whether each alternative has a constant; that of the first is 0.
    alpha : float
        Strength of the ridge on the attributes' coefficients; constants are not penalised.
    solver : {"auto", "likelihood", "augment-reduce"}
        "likelihood" maximises the exact likelihood, "augment-reduce" a lower bound of it, by
        sampling situations and alternatives. "auto" is "likelihood" up to a million rows (softmax:
        twenty million), else "augment-reduce".
    situations_per_step, alternatives_per_step : int
        Numbers of situations, and of alternatives of each, that a step of "augment-reduce" samples.
    learning_rate : float
        The initial learning rate of "augment-reduce".
    max_epochs : int
        The number of epochs of "augment-reduce".
    random_state : int, RandomState or None
        The seed of "augment-reduce".

    Attributes
    ----------
    coef_ : array of shape (n_attributes,)
    constants_ : array of shape (n_alternatives,)
        Relative to the first alternative's; zeros without constants.
    attributes_ : list of str
    alternatives_ : array
        Their labels, sorted.
    log_likelihood_ : float
        The log-likelihood of the choices fitted.
    covariance_ : array, or None
        The covariance of the coefficients and of all constants but the first: the inverse of the
        observed information. None for "augment-reduce" and for more than 500 parameters.
    history_ : list of float
        After each iteration or epoch, the mean negative log-likelihood, or that of the bound.

    Examples
    --------
    Twenty thousand people choose among car, bus and, half of them, train:

    >>> import numpy as np
    >>> from monro import ChoiceModel
    >>> rng = np.random.default_rng(0)
    >>> frame = {
    ...     "situation": np.repeat(np.arange(20_000), 3),
    ...     "alternative": np.tile(["bus", "car", "train"], 20_000),
    ...     "price": rng.random(60_000),
    ...     "minutes": rng.random(60_000),
    ... }
    >>> utility = -2.0 * frame["price"] - frame["minutes"] + rng.gumbel(size=60_000)
    >>> there = (frame["alternative"] != "train") | (rng.random(60_000) < 0.5)
    >>> utility[~there] = -np.inf
    >>> best = utility.reshape(-1, 3).max(axis=1).repeat(3)
    >>> frame["chosen"] = utility == best
    >>> frame = {name: values[there] for name, values in frame.items()}
    >>> model = ChoiceModel().fit(frame)
    >>> [round(float(c), 1) for c in model.coef_]
    [-2.0, -1.0]
    >>> model.predict_proba(frame).shape == model.predict(frame).shape == frame["price"].shape
    True
    >>> model.shares(frame)["train"] < 0.3, model.score(frame) > 0.5, model.log_loss(frame) < 0.9
    (True, True, True)
    >>> print(model.summary())
    name               coefficient  std. error  [ 95 % interval ]
    price                  -1.9808      0.0375  -2.0543  -1.9074
    minutes                -0.9777      0.0351  -1.0466  -0.9088
    constant of car        -0.0075      0.0166  -0.0401   0.0251
    constant of train      -0.0182      0.0242  -0.0657   0.0293
    >>> import tempfile
    >>> import monro
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/trips.monro")
    ...     bool((monro.load(f"{folder}/trips.monro").coef_ == model.coef_).all())
    True
    """

    def __init__(
        self,
        *,
        link: str = "softmax",
        situation: str = "situation",
        alternative: str = "alternative",
        chosen: str = "chosen",
        attributes: list[str] | None = None,
        constants: bool = True,
        alpha: float = 0.0,
        solver: str = "auto",
        situations_per_step: int = 500,
        alternatives_per_step: int = 20,
        learning_rate: float = _RATE,
        max_epochs: int = 50,
        random_state: Any = None,
    ):
        self.link = link
        self.situation = situation
        self.alternative = alternative
        self.chosen = chosen
        self.attributes = attributes
        self.constants = constants
        self.alpha = alpha
        self.solver = solver
        self.situations_per_step = situations_per_step
        self.alternatives_per_step = alternatives_per_step
        self.learning_rate = learning_rate
        self.max_epochs = max_epochs
        self.random_state = random_state

    def fit(self, frame: Any, y: None = None) -> Self:
        """Fit to choices.

        Parameters
        ----------
        frame : data frame (pandas, polars, Arrow) or dictionary of columns
            A row for each alternative that was available in a situation, in any order.
        y : None
            The choices are a column of the frame.
        """
        self._check_parameters()
        keys = (self.situation, self.alternative, self.chosen)
        attributes = self.attributes
        if attributes is None:
            attributes = [name for name in columns_of(frame) if name not in keys]
        choices, labels = read_choices(frame, *keys, list(attributes), None)
        if not attributes and not self.constants:
            raise ValueError("there is nothing to fit: give attributes, or constants=True")
        _check_varies(choices, list(attributes), self.alpha)
        self.attributes_ = list(attributes)
        self.alternatives_ = labels
        self.history_ = []
        n_constants = labels.size if self.constants else 0
        likelihood = Likelihood(choices, n_constants, self.link, float(self.alpha))
        maximise = _SOLVERS[self._choose_solver(choices.X.shape[0])]
        theta, self.covariance_ = maximise(self, likelihood)
        self.coef_ = theta[: len(attributes)]
        self.constants_ = np.append(0.0, theta[len(attributes) :])
        if not self.constants:
            self.constants_ = np.zeros(labels.size)
        self.log_likelihood_ = float(likelihood.slopes(theta)[0].sum())
        return self

    def _check_parameters(self) -> None:
        check_choice("link", self.link, LINKS)
        check_choice("solver", self.solver, ("auto", *_SOLVERS))
        check_number("alpha", self.alpha, 0.0)
        check_number("learning_rate", self.learning_rate, 0.0, open_at_low=True)
        check_flag("constants", self.constants)
        for name in ("situations_per_step", "alternatives_per_step", "max_epochs"):
            check_integer(name, getattr(self, name), 1)

    def _choose_solver(self, n_rows: int) -> str:
        """Resolve solver="auto"."""
        if self.solver != "auto":
            return str(self.solver)
        return "likelihood" if n_rows <= _MOST_ROWS[self.link] else "augment-reduce"

    def _maximise_likelihood(self, likelihood: Likelihood) -> tuple[Array, Array | None]:
        """Return the maximum-likelihood estimate, and its covariance.

        The likelihood is log-concave for all three links.
        """
        self._check_chosen(likelihood.choices)
        scale = likelihood.scales()
        found = minimize(
            lambda u: _rescaled(likelihood, u, scale),
            np.zeros(likelihood.size),
            jac=True,
            method="L-BFGS-B",
            callback=lambda intermediate_result: self.history_.append(intermediate_result.fun),
            options={
                "maxiter": _ITERATIONS,
                "maxfun": 2 * _ITERATIONS,
                "gtol": 1e-8,
                "ftol": 1e-14,
            },
        )
        theta = found.x * scale
        if found.fun < _CERTAIN:
            raise ValueError(_SEPARATED)
        if likelihood.size > MOST_PARAMETERS:
            return theta, None
        return theta, covariance(likelihood.information(theta))

    def _check_chosen(self, choices: Choices) -> None:
        """Raise for an alternative that was never chosen: its constant has no finite optimum."""
        count = np.bincount(choices.alternative[choices.chosen], minlength=self.alternatives_.size)
        if self.constants and not count.all():
            label = self.alternatives_.tolist()[count.argmin()]
            raise ValueError(
                f"alternative {label!r} is never chosen, so its constant has no finite optimum: "
                "drop its rows, or use constants=False or solver='augment-reduce'"
            )

    def _maximise_bound(self, likelihood: Likelihood) -> tuple[Array, None]:
        """Return parameters found by augment and reduce, which gives no covariance."""
        theta = fit_stochastic(
            likelihood.choices,
            likelihood.n_constants,
            self.link,
            alpha=float(self.alpha),
            learning_rate=float(self.learning_rate),
            situations_per_step=self.situations_per_step,
            alternatives_per_step=self.alternatives_per_step,
            max_epochs=self.max_epochs,
            rng=np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1)),
            after_epoch=self.history_.append,
        )
        return theta, None


_SOLVERS: dict[str, Callable[[ChoiceModel, Likelihood], tuple[Array, Array | None]]] = {
    "likelihood": ChoiceModel._maximise_likelihood,
    "augment-reduce": ChoiceModel._maximise_bound,
}
_SEPARATED = (
    "the choices can be told from the attributes without fail: no coefficients are the best, ever "
    "larger ones are better; give alpha > 0, or leave attributes out"
)


def _rescaled(likelihood: Likelihood, u: Array, scale: Array) -> tuple[float, Array]:
    value, gradient = likelihood(u * scale)
    return value, gradient * scale


def _check_varies(choices: Choices, attributes: list[str], alpha: float) -> None:
    """Raise for an attribute that is the same for all alternatives of every situation."""
    if alpha > 0.0:
        return
    starts = choices.starts[:-1]
    high, low = (f.reduceat(choices.X, starts) for f in (np.maximum, np.minimum))
    varies = np.asarray((high > low).any(axis=0))
    for name, matters in zip(attributes, varies, strict=True):
        if not matters:
            raise ValueError(
                f"attribute {name!r} is the same for all alternatives of every situation, so it "
                "cannot matter: leave it out, or multiply it with one that varies"
            )
