"""Vanilla SGD on the double sum (paper 000, section 2.2), in both formulations.

    ``w_k -= η c e^{z_k - u} x``,  ``w_y += η c Σ_k e^{z_k - u} x``,
    ``u ← max(0, u - η (1 - e^{-u} - c Σ_k e^{z_k - u}))``

The gradients grow exponentially where u is too small and may overflow: the fit then raises a
DivergenceError.
"""

from typing import NamedTuple

from monro._math import fast_exp, fast_log
from monro.softmax.rules.sums import weighted_exponentials


class Vanilla(NamedTuple):
    """The paper's double sum, eq. 6."""

    def input_score(self, p, rho, bias):  # type: ignore[no-untyped-def]
        return p + bias

    def step(self, eta, z, s, q_y, y, u, scratch):  # type: ignore[no-untyped-def]
        zero = z.dtype.type(0.0)
        one = z.dtype.type(1.0)
        total = weighted_exponentials(z, scratch.log_weight, s + u, eta)
        e = fast_exp(-u)
        loss = fast_log(one + fast_exp(u) * total)
        u -= eta * (one - e - total)
        return max(zero, u), eta * total, loss


class RamanVanilla(NamedTuple):
    """Raman et al.'s double sum, eq. 8: u is the log-normaliser, and every step moves w_y."""

    def input_score(self, p, rho, bias):  # type: ignore[no-untyped-def]
        return p + bias

    def step(self, eta, z, s, q_y, y, u, scratch):  # type: ignore[no-untyped-def]
        one = z.dtype.type(1.0)
        total = weighted_exponentials(z, scratch.log_weight, u, eta)
        p_y = fast_exp(s - u)
        loss = fast_log(one + fast_exp(u - s) * total)
        return u - eta * (one - p_y - total), eta * (one - p_y), loss
