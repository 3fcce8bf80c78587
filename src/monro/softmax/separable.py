"""Implicit SGD on Raman et al.'s double sum (paper 000, eq. 8), where the pull on w_y stands alone.

With v the log-normaliser of the example, the step minimises

    ``η [v - s_y + e^{s_y - v} + c Σ_{k∈C} e^{s_k - v}] + (v - ṽ)²/2r + ½ ‖W - W̃‖² + ridge``.

With ρ, q and s̃ as in `implicit`, and ``B = η e^{s_y - v}``,

    ``q_k g_k = ω(log(η c q_k) + s̃_k - v)``,
    ``q_y B = ω(log(η q_y) + η q_y + s̃_y - v)``,    ``G = η - B``,

and v solves ``ṽ - v + r (Σ g_k - G) = 0``. The left side is convex and falls with v, so from its
second iterate on Newton's method climbs to the solution. Where r < 1 the normaliser learns more
slowly than the weights: its noise is what hurts. The pull on w_y no longer waits for a lucky draw;
once v is right it has no noise at all.
"""

from typing import NamedTuple

from monro._math import fast_log, fast_omega
from monro.softmax.implicit import _MOST_ROUNDS, corrected_steps, prepare, steps


class SeparableImplicit(NamedTuple):
    """The step on Raman et al.'s double sum."""

    tolerance: float
    stiffness: float  # κ = 1/r

    def seen(self, p, rho, bias):  # type: ignore[no-untyped-def]
        return rho * p + bias

    def step(self, eta, z, s, q_y, y, u, scratch):  # type: ignore[no-untyped-def]
        zero = z.dtype.type(0.0)
        one = z.dtype.type(1.0)
        stiffness = self.stiffness
        old = u
        loss = fast_log(one + prepare(eta, s, z, scratch))
        own = fast_log(eta * q_y) + eta * q_y + s
        # Only y pulls v down: by r η at most, and not below its own score.
        if stiffness > zero:
            low = max(old - eta / stiffness, min(old, s))
        else:
            low = s
            u = s + loss
        change = zero
        for _ in range(_MOST_ROUNDS):
            g, slope = steps(z, u - s, scratch)
            w = fast_omega(own - u)
            B = w / q_y
            excess = stiffness * (old - u) + (g + B - eta)
            new = max(low, u + excess / (stiffness + slope + B / (one + w)))
            change = new - u
            u = new
            if abs(change) <= self.tolerance:
                break
        corrected_steps(z, change, scratch)
        B = fast_omega(own - u) / q_y
        # In long steps B may be nearly η: the difference would cancel.
        cancels = eta * q_y > one and eta < B + B
        pull = (u + fast_log(B / eta) - s) / q_y if cancels else eta - B
        return u, pull, loss
