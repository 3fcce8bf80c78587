"""Noise-contrastive estimation (Mnih & Teh, 2012): classify y against m classes of noise.

With noise probabilities q the example's loss is

    ``-log σ(s_y - log(m q_y)) - Σ_{k∈C} log σ(log(m q_k) - s_k)``,

where the normaliser is taken to be 1. Noise is drawn from all classes, and a draw that equals y is
noise like any other: without it the optimum would be ``p/(1 - p)`` instead of p. Biased unless the
number of noise classes is infinite and the model can represent scores whose normaliser is 1.
"""

from typing import NamedTuple

from monro._math import fast_exp, fast_log
from monro.rows import Array


class NoiseContrastive(NamedTuple):
    """A gradient step on the loss above."""

    log_count: Array  # (slots,): log(m q_k)

    def input_score(self, p, rho, bias):  # type: ignore[no-untyped-def]
        return p + bias

    def step(self, eta, z, s, q_y, y, u, scratch):  # type: ignore[no-untyped-def]
        one = z.dtype.type(1.0)
        zero = z.dtype.type(0.0)
        t = self.log_count[y] - s
        e = fast_exp(-abs(t))
        log_term = fast_log(one + e)
        noise = scratch.own_draws[0]
        loss = max(t, zero) + log_term + noise * (max(-t, zero) + log_term)
        G = eta * ((one if t >= zero else e) - noise * (e if t >= zero else one)) / (one + e)
        for lane in range(z.size):
            t = z[lane] + scratch.log_weight[lane]  # the weight is 1/(m q_k)
            e = fast_exp(-abs(t))
            loss += max(t, zero) + fast_log(one + e)
            z[lane] = eta * (one if t >= zero else e) / (one + e)
        return u, G, loss
