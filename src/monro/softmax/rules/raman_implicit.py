"""Implicit SGD on Raman et al.'s double sum (paper 000, eq. 8), where w_y has a term of its own.

With v the log-normaliser of the example, the step minimises

    ``η [v - s_y + e^{s_y - v} + c Σ_{k∈C} e^{s_k - v}] + (v - ṽ)²/2r + ½ ‖W - W̃‖² + ridge``.

With ρ, q and s̃ as in `implicit`, and ``B = η e^{s_y - v}``,

    ``q_k g_k = ω(log(η c q_k) + s̃_k - v)``,
    ``q_y B = ω(log(η q_y) + η q_y + s̃_y - v)``,    ``G = η - B``,

and v solves ``ṽ - v + r (Σ g_k - G) = 0``. The left side is convex and decreasing in v, so from its
second iterate on Newton's method increases to the solution. Where r < 1 the normaliser learns more
slowly than the weights, which damps its sampling noise. The step of w_y depends on the draws only
through v: once v is exact, it has no sampling noise.
"""

from typing import NamedTuple

from monro._math import fast_log, fast_omega
from monro.softmax.rules.implicit import MAX_NEWTON_STEPS, corrected_steps, prepare, steps


class RamanImplicit(NamedTuple):
    """The implicit step on Raman et al.'s double sum."""

    tolerance: float
    stiffness: float  # κ = 1/r

    def input_score(self, p, rho, bias):  # type: ignore[no-untyped-def]
        return rho * p + bias

    def step(self, eta, z, s, q_y, y, u, scratch):  # type: ignore[no-untyped-def]
        zero = z.dtype.type(0.0)
        one = z.dtype.type(1.0)
        stiffness = self.stiffness
        v_before = u  # the local variable u is v in this formulation
        loss = fast_log(one + prepare(eta, s, z, scratch))
        t_y = fast_log(eta * q_y) + eta * q_y + s
        # Only the term of y decreases v: by r η at most, and not below the score of y.
        if stiffness > zero:
            lowest = max(v_before - eta / stiffness, min(v_before, s))
        else:
            lowest = s
            u = s + loss
        change = zero
        for _ in range(MAX_NEWTON_STEPS):
            g, slope = steps(z, u - s, scratch)
            w = fast_omega(t_y - u)
            B = w / q_y
            excess = stiffness * (v_before - u) + (g + B - eta)
            new = max(lowest, u + excess / (stiffness + slope + B / (one + w)))
            change = new - u
            u = new
            if abs(change) <= self.tolerance:
                break
        corrected_steps(z, change, scratch)
        B = fast_omega(t_y - u) / q_y
        # In long steps B may be nearly η: the difference η - B would cancel.
        cancels = eta * q_y > one and eta < B + B
        G = (u + fast_log(B / eta) - s) / q_y if cancels else eta - B
        return u, G, loss
