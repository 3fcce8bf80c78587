"""Exact softmax SGD: all K classes at every step, O(K) a step. The reference for the others."""

from typing import NamedTuple

from monro.softmax.rules.sums import log_sum_exp, softmax_steps


class Exact(NamedTuple):
    """A gradient step on the negative log-likelihood of all classes."""

    def input_score(self, p, rho, bias):  # type: ignore[no-untyped-def]
        return p + bias

    def step(self, eta, z, s, q_y, y, u, scratch):  # type: ignore[no-untyped-def]
        normaliser = log_sum_exp(z, s)
        return u, softmax_steps(z, normaliser, eta), normaliser - s
