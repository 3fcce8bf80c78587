"""Implicit SGD for one example and any number of classes (paper 000, section 3.2, Proposition 4).

The step minimises, over u, the weights of the classes drawn (C) and the weights of y,

    ``η [u + e^{-u} + c Σ_{k∈C} e^{s_k - s_y - u}] + ½ (u - ũ)² + ½ ‖W - W̃‖² + ridge``,
    ``ridge = η μ/2N Σ β_k ‖w_k‖²``.

Its solution has the form ``w_k = ρ_k (w̃_k - g_k x)``, ``w_y = ρ_y (w̃_y + G x)``; each score falls
by ``q_k g_k``, ``q_k = ρ_k ‖x‖² + δ`` (δ for the intercept), that of y rises by ``q_y G``. Setting
the derivatives to zero,

    ``G = u - ũ + η (1 - e^{-u})``,
    ``G = Σ g_k``,  ``q_k g_k = ω(log(η c q_k) + s̃_k - s̃_y - h)``,  ``h = u + q_y G``,

where s̃ are the scores of the weights already shrunk by ρ. For one class and no ridge these are the
paper's equations 11–16 (ω(t) is its P(e^t)). We solve for u and G together: where q_y is large, G
computed from a rounded u has no correct digits. In (u, h) both equations are convex, and Newton's
method is monotone: from its second iterate on it increases to the solution, so it needs no bracket.
No step overshoots, whatever η: it is of the order of ``z - u``.
"""

from typing import Any, NamedTuple

from monro._jit import lanes_leaf
from monro._math import fast_exp, fast_log, fast_omega
from monro.rows import Array

MAX_NEWTON_STEPS = 60


@lanes_leaf
def prepare(eta: float, offset: float, z: Array, scratch: Any) -> Any:
    """Replace z by ``log(η c q_k) + z - offset``; return ``Σ c e^{z - offset}`` of the old z."""
    total = z.dtype.type(0.0)
    for lane in range(z.size):
        t = z[lane] + scratch.log_weight[lane] - offset
        total += fast_exp(t)
        z[lane] = t + fast_log(eta * scratch.q[lane])
    return total


@lanes_leaf
def steps(z: Array, shift: float, scratch: Any) -> tuple[float, float]:
    """Return ``Σ g`` and ``-d Σg/d shift`` for ``q_k g_k = ω(z_k - shift)``; store the ω."""
    one = z.dtype.type(1.0)
    total = z.dtype.type(0.0)
    slope = z.dtype.type(0.0)
    for lane in range(z.size):
        w = fast_omega(z[lane] - shift)
        g = w / scratch.q[lane]
        scratch.omega[lane] = w
        total += g
        slope += g / (one + w)
    return total, slope


@lanes_leaf
def corrected_steps(z: Array, change: float, scratch: Any) -> Any:
    """Write to z the steps g for a shift larger by a small `change`; return their sum.

    From the stored ω by Taylor: ``ω' = ω/(1 + ω)``, ``ω'' = ω/(1 + ω)³``.
    """
    one = z.dtype.type(1.0)
    half = z.dtype.type(0.5)
    total = z.dtype.type(0.0)
    for lane in range(z.size):
        w = scratch.omega[lane]
        r = change / (one + w)
        g = w * (one - r + half * r * r / (one + w)) / scratch.q[lane]
        z[lane] = g
        total += g
    return total


class Implicit(NamedTuple):
    """The implicit step on the paper's double sum (eq. 5)."""

    tolerance: float  # of u and h; the remaining error is of the order of its square

    def input_score(self, p, rho, bias):  # type: ignore[no-untyped-def]
        return rho * p + bias

    def step(self, eta, z, s, q_y, y, u, scratch):  # type: ignore[no-untyped-def]
        zero = z.dtype.type(0.0)
        one = z.dtype.type(1.0)
        u_before = u
        loss = fast_log(one + prepare(eta, s, z, scratch))
        lowest_u = max(u_before / (one + eta), u_before - eta)  # since G ≥ 0
        G = zero
        change = zero
        for _ in range(MAX_NEWTON_STEPS):
            e = fast_exp(-u)
            dG_du = one + eta * e
            excess = G - (u - u_before) - eta * (one - e)
            g, slope = steps(z, u + q_y * G, scratch)
            dG = (g - G - slope * excess / dG_du) / (one + slope * (q_y + one / dG_du))
            du = (excess + dG) / dG_du
            change = du + q_y * dG  # in h
            G += dG
            u += du
            if u < lowest_u:  # h stays the same
                G = max(zero, G - (lowest_u - u) / q_y)
                u = lowest_u
            if abs(du) + abs(change) <= self.tolerance:
                break
        return u, corrected_steps(z, change, scratch), loss
