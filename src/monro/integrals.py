"""Choice probabilities: integrals over the utility of the chosen alternative.

With t the utility of alternative k, ``p_k = ∫ φ(t - s_k) Π_{j≠k} Φ(t - s_j) dt``. The integrand is
smooth and log-concave, so the trapezoidal rule converges geometrically: some tens of points give
twelve digits. ``Π_j Φ(t - s_j)`` is the same for all alternatives, so all probabilities together
cost little more than one. Logarithms are summed, which is accurate far into the tails.
"""

import math

from monro._jit import kernel, leaf
from monro.links import Law, hazard, log_cdf, log_density, slope
from monro.rows import Array

MAX_POINTS = 4096
_NEGLIGIBLE = 45.0  # nats below the peak, where the grid ends
_POINTS_PER_WIDTH = 2.5  # grid points for each width 1/√curvature of the integrand at its peak
_MAX_SPACING = 0.4  # of grid points
_MAX_ITERATIONS = 100


@leaf
def log_integrand(law: Law, s: Array, k: int, t: float) -> float:
    """``log φ(t - s_k) + Σ_{j≠k} log Φ(t - s_j)``."""
    total = log_density(law, t - s[k])
    for j in range(s.size):
        if j != k:
            total += log_cdf(law, t - s[j])
    return total


@leaf
def log_slope(law: Law, s: Array, k: int, t: float) -> float:
    """Return the derivative of the log-integrand, which decreases with t."""
    total = slope(law, t - s[k])
    for j in range(s.size):
        if j != k:
            total += hazard(law, t - s[j])
    return total


@leaf
def peak_of(law: Law, s: Array, k: int) -> float:
    """Return the maximiser of the integrand, to 0.05: bracketed by doubling, then bisected."""
    low = s[k]
    for j in range(s.size):
        low = max(low, s[j])
    step = 1.0
    up = log_slope(law, s, k, low) > 0.0
    high = low
    while (log_slope(law, s, k, high) > 0.0) == up and step < 1e9:
        low = high
        high = high + step if up else high - step
        step *= 2.0
    if not up:
        low, high = high, low
    while high - low > 0.05:
        middle = 0.5 * (low + high)
        if log_slope(law, s, k, middle) > 0.0:
            low = middle
        else:
            high = middle
    return float(0.5 * (low + high))


@leaf
def end_of(law: Law, s: Array, k: int, peak: float, direction: float) -> float:
    """Return a point on one side of the peak beyond which the integrand is negligible."""
    threshold = log_integrand(law, s, k, peak) - _NEGLIGIBLE
    inside = 0.0  # distances from the peak: the end is between the two
    outside = 1.0
    while log_integrand(law, s, k, peak + direction * outside) > threshold:
        inside = outside
        outside *= 2.0
    for _ in range(4):
        middle = 0.5 * (inside + outside)
        if log_integrand(law, s, k, peak + direction * middle) > threshold:
            inside = middle
        else:
            outside = middle
    return peak + direction * outside


@leaf
def spacing_of(law: Law, s: Array, k: int, peak: float) -> float:
    """Return the spacing of grid points, from the width of the integrand at its peak."""
    d = 0.05
    curvature = (log_slope(law, s, k, peak - d) - log_slope(law, s, k, peak + d)) / (2.0 * d)
    return min(_MAX_SPACING, 1.0 / (_POINTS_PER_WIDTH * math.sqrt(max(curvature, 1e-12))))


@leaf
def grid_of(law: Law, s: Array, k: int) -> tuple[float, float, int, float]:
    """Return the first point, the step, the number of steps, and the log-integrand's maximum."""
    peak = peak_of(law, s, k)
    low = end_of(law, s, k, peak, -1.0)
    high = end_of(law, s, k, peak, 1.0)
    points = 1 + math.ceil((high - low) / spacing_of(law, s, k, peak))
    return low, (high - low) / points, points, log_integrand(law, s, k, peak)


@kernel
def log_probability(law: Law, s: Array, k: int) -> float:
    """``log p_k`` of one alternative for the scores s."""
    low, step, points, top = grid_of(law, s, k)
    total = 0.0
    for q in range(points + 1):
        total += math.exp(log_integrand(law, s, k, low + q * step) - top)
    return top + math.log(total * step)


@kernel
def log_probabilities(law: Law, s: Array, points: Array, out: Array) -> None:
    """``out_k = log p_k`` of all alternatives; `points` is scratch, of `MAX_POINTS` + 1."""
    lowest = 0
    highest = 0
    for j in range(s.size):
        lowest = j if s[j] < s[lowest] else lowest
        highest = j if s[j] > s[highest] else highest
    lower_peak = peak_of(law, s, lowest)
    upper_peak = peak_of(law, s, highest)
    low = end_of(law, s, lowest, lower_peak, -1.0)
    high = end_of(law, s, highest, upper_peak, 1.0)
    spacing = min(spacing_of(law, s, lowest, lower_peak), spacing_of(law, s, highest, upper_peak))
    n = min(points.size - 1, 1 + math.ceil((high - low) / spacing))
    step = (high - low) / n
    for q in range(n + 1):
        t = low + q * step
        total = 0.0
        for j in range(s.size):
            total += log_cdf(law, t - s[j])
        points[q] = total
    for k in range(s.size):
        top = -math.inf
        total = 0.0
        for q in range(n + 1):
            t = low + q * step - s[k]
            value = points[q] + log_density(law, t) - log_cdf(law, t)
            if value > top:
                total = total * math.exp(top - value) + 1.0
                top = value
            else:
                total += math.exp(value - top)
        out[k] = top + math.log(total * step)


@kernel
def log_probability_of_rows(law: Law, S: Array, codes: Array, out: Array) -> None:
    """``out_i = log p_k`` of row i's alternative k."""
    for i in range(S.shape[0]):
        out[i] = log_probability(law, S[i], codes[i])


@kernel
def log_probabilities_of_rows(law: Law, S: Array, points: Array, out: Array) -> None:
    """``out_ik = log p_k`` of all alternatives of every row."""
    for i in range(S.shape[0]):
        log_probabilities(law, S[i], points, out[i])


@kernel
def sampled_log_probability(law: Law, s: Array, k: int, draws: Array, log_weight: Array) -> float:
    """``log p_k`` estimated by importance sampling, as in section 4 of paper 001.

    `draws` are draws of the utility's noise; their importance weights are the inverse of the
    proposal distribution's density.
    """
    top = -math.inf
    total = 0.0
    for q in range(draws.size):
        value = log_integrand(law, s, k, s[k] + draws[q]) + log_weight[q]
        if value > top:
            total = total * math.exp(top - value) + 1.0
            top = value
        else:
            total += math.exp(value - top)
    return top + math.log(total / draws.size)


@kernel
def best_bound(
    law: Law, s: Array, k: int, nodes: Array, weight: Array, variance: float, entropy: float
) -> float:
    """Return the best lower bound of ``log p_k`` over laws q = μ + σ·(standard law) of the utility.

    ``E_q[log φ(t - s_k) + Σ_j log Φ(t - s_j)] + entropy + log σ``; the expectation is a sum over
    quadrature nodes υ of the standard law. The integrand's logarithm f is concave, so the best q is
    the only one with ``E f' = 0`` and ``-σ E[f' υ] = 1``.
    """
    mu = peak_of(law, s, k)
    sigma = 1.0
    for _ in range(_MAX_ITERATIONS):
        mean = 0.0
        decrease = 0.0
        for q in range(nodes.size):
            d = weight[q] * log_slope(law, s, k, mu + sigma * nodes[q])
            mean += d
            decrease -= d * nodes[q]
        change = mean * sigma * variance / decrease  # of μ: Newton's step, with f's mean curvature
        mu += min(max(change, -3.0 * sigma), 3.0 * sigma)
        shrinkage = math.sqrt(sigma * decrease)
        sigma /= min(max(shrinkage, 0.3), 3.0)
        if abs(change) < 1e-6 * sigma and abs(shrinkage - 1.0) < 1e-6:
            break
    bound = entropy + math.log(sigma)
    for q in range(nodes.size):
        bound += weight[q] * log_integrand(law, s, k, mu + sigma * nodes[q])
    return bound


@kernel
def sampled_log_probability_of_rows(
    law: Law, S: Array, codes: Array, draws: Array, log_weight: Array, out: Array
) -> None:
    """``out_i``: an estimate of ``log p_k`` of row i's alternative k, from row i of the draws."""
    for i in range(S.shape[0]):
        out[i] = sampled_log_probability(law, S[i], codes[i], draws[i], log_weight[i])


@kernel
def bound_of_rows(
    law: Law, S: Array, codes: Array, location: Array, scale: Array, nodes: Array, weight: Array,
    entropy: float, out: Array,
) -> None:  # fmt: skip
    """``out_i``: the lower bound of ``log p_k`` of row i for a distribution q_i of its noise.

    q_i is that of ``location_i + scale_i υ``; υ has these quadrature nodes and this entropy.
    """
    for i in range(S.shape[0]):
        s = S[i]
        k = codes[i]
        bound = entropy + math.log(scale[i])
        for q in range(nodes.size):
            t = s[k] + location[i] + scale[i] * nodes[q]
            bound += weight[q] * log_integrand(law, s, k, t)
        out[i] = bound


@kernel
def best_bound_of_rows(
    law: Law, S: Array, codes: Array, nodes: Array, weight: Array, variance: float,
    entropy: float, out: Array,
) -> None:  # fmt: skip
    """``out_i``: the best lower bound of ``log p_k`` of row i's alternative k."""
    for i in range(S.shape[0]):
        out[i] = best_bound(law, S[i], codes[i], nodes, weight, variance, entropy)
