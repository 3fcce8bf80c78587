"""The exact likelihood of choices and its gradient in the utilities, for any noise distribution.

With t the utility of the chosen alternative y, ``p = ∫ φ(t - s_y) Π_{j≠y} Φ(t - s_j) dt`` (see
`monro.integrals`). Under the density proportional to the integrand, ``-d log p/d s_j`` is the mean
of ``φ/Φ(t - s_j)``. These slopes sum to 0, because only differences of utilities matter.
"""

import math

import numpy as np

from monro._jit import kernel
from monro.choice.frames import Choices
from monro.integrals import MAX_POINTS, grid_of, log_integrand, log_probabilities
from monro.links import LINKS, Law, hazard
from monro.rows import Array

MOST_PARAMETERS = 500  # for which the covariance is computed


@kernel
def choice_slopes(
    law: Law, s: Array, starts: Array, chosen: Array, slopes: Array, out: Array
) -> None:
    """``out_n = log p`` of each situation's choice; `slopes` are its derivatives in s."""
    for n in range(chosen.size):
        part = s[starts[n] : starts[n + 1]]
        slope = slopes[starts[n] : starts[n + 1]]
        y = chosen[n] - starts[n]
        low, step, points, top = grid_of(law, part, y)
        total = 0.0
        slope[:] = 0.0
        for q in range(points + 1):
            t = low + q * step
            density = math.exp(log_integrand(law, part, y, t) - top)
            total += density
            for j in range(part.size):
                slope[j] -= density * hazard(law, t - part[j])
        slope[y] = 0.0
        rise = 0.0
        for j in range(part.size):
            slope[j] /= total
            rise -= slope[j]
        slope[y] = rise
        out[n] = top + math.log(total * step)


@kernel
def softmax_slopes(s: Array, starts: Array, chosen: Array, slopes: Array, out: Array) -> None:
    """`choice_slopes` for Gumbel noise, which has a closed form: ``p = e^{s_y}/Σ e^{s_j}``."""
    for n in range(chosen.size):
        top = -math.inf
        for row in range(starts[n], starts[n + 1]):
            top = max(top, s[row])
        total = 0.0
        for row in range(starts[n], starts[n + 1]):
            slopes[row] = -math.exp(s[row] - top)
            total -= slopes[row]
        for row in range(starts[n], starts[n + 1]):
            slopes[row] /= total
        slopes[chosen[n]] += 1.0
        out[n] = s[chosen[n]] - top - math.log(total)


@kernel
def all_probabilities(law: Law, s: Array, starts: Array, points: Array, out: Array) -> None:
    """``out = log p`` of every alternative of every situation."""
    for n in range(starts.size - 1):
        rows = slice(starts[n], starts[n + 1])
        log_probabilities(law, s[rows], points, out[rows])


class Likelihood:
    """The mean negative log-likelihood of choices, with a ridge on the attributes' coefficients.

    The parameters θ are these coefficients, then the constants of all alternatives but the first.
    """

    def __init__(self, choices: Choices, n_constants: int, link: str, alpha: float):
        self.choices = choices
        self.n_attributes = choices.X.shape[1]
        self.n_constants = n_constants  # with the first, which is fixed at 0; or 0
        self.link = link
        self.alpha = alpha
        self.size = self.n_attributes + max(0, n_constants - 1)

    def scales(self) -> Array:
        """Return step sizes of the parameters that change the utilities about equally."""
        deviation = self.choices.X.std(axis=0)
        scales = np.ones(self.size)
        scales[: self.n_attributes] = 1.0 / np.where(deviation > 0.0, deviation, 1.0)
        return scales

    def utilities(self, theta: Array) -> Array:
        """Return the utility of each row, without noise."""
        s: Array = self.choices.X @ theta[: self.n_attributes]
        if self.n_constants:
            s += np.append(0.0, theta[self.n_attributes :])[self.choices.alternative]
        return s

    def slopes(self, theta: Array) -> tuple[Array, Array]:
        """Return the log-probability of each choice, and its slope in each row's utility."""
        _, _, starts, chosen, _, _ = self.choices
        s = self.utilities(theta)
        slopes, out = np.empty(s.size), np.empty(chosen.size)
        if self.link == "softmax":
            softmax_slopes(s, starts, chosen, slopes, out)
        else:
            choice_slopes(LINKS[self.link], s, starts, chosen, slopes, out)
        return out, slopes

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """Return the objective and its gradient."""
        log_p, slopes = self.slopes(theta)
        n, beta = log_p.size, theta[: self.n_attributes]
        gradient = -self.choices.X.T @ slopes / n + self.alpha * beta
        if self.n_constants:
            of_constants = np.bincount(self.choices.alternative, slopes, self.n_constants)
            gradient = np.append(gradient, -of_constants[1:] / n)
        return float(-log_p.mean() + 0.5 * self.alpha * beta @ beta), gradient

    def information(self, theta: Array) -> Array:
        """Return the Hessian of the summed objective, by differences of its exact gradient."""
        H = np.empty((self.size, self.size))
        for j in range(self.size):
            d = np.zeros(self.size)
            d[j] = 1e-4 * max(1.0, abs(theta[j]))
            H[j] = (self(theta + d)[1] - self(theta - d)[1]) / (2.0 * d[j])
        return np.asarray(0.5 * (H + H.T) * self.choices.chosen.size)


def covariance(information: Array) -> Array:
    """Return the inverse of the information; raise if the coefficients are not identified."""
    values = np.linalg.eigvalsh(information) if information.size else np.ones(1)
    if values[0] <= 1e-10 * max(values[-1], 1e-300):
        raise ValueError(
            "the data do not tell all coefficients apart: leave out attributes that are sums of "
            "others, or give alpha > 0"
        )
    return np.asarray(np.linalg.inv(information))


def probabilities(link: str, s: Array, starts: Array) -> Array:
    """Return the probability of every alternative of every situation."""
    size = np.diff(starts)
    if link == "softmax":
        out = s - np.repeat(np.maximum.reduceat(s, starts[:-1]), size)
    else:
        out = np.empty(s.size)
        all_probabilities(LINKS[link], s, starts, np.empty(MAX_POINTS + 1), out)
    p = np.exp(out)
    return np.asarray(p / np.repeat(np.add.reduceat(p, starts[:-1]), size))
