"""One-vs-each (Titsias, 2016): each class against y alone. A bound of the likelihood, so biased.

Minimises ``c Σ_{k∈C} log(1 + e^{s_k - s_y})``; there is no local variable.
"""

from typing import NamedTuple

from monro._math import fast_exp, fast_log


class OneVsEach(NamedTuple):
    """A gradient step on the sampled one-vs-each bound."""

    def input_score(self, p, rho, bias):  # type: ignore[no-untyped-def]
        return p + bias

    def step(self, eta, z, s, q_y, y, u, scratch):  # type: ignore[no-untyped-def]
        one = z.dtype.type(1.0)
        zero = z.dtype.type(0.0)
        G = zero
        loss = zero
        for lane in range(z.size):
            t = z[lane] - s
            c = fast_exp(scratch.log_weight[lane])
            e = fast_exp(-abs(t))
            loss += c * (max(t, zero) + fast_log(one + e))
            g = eta * c * (one if t >= zero else e) / (one + e)
            z[lane] = g
            G += g
        return u, G, loss
