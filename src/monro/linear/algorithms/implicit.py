"""Implicit stochastic gradient descent (paper 003), each step solved exactly.

The gradient is taken where the step ends, ``θ⁺ = θ - η(∇ℓ(θ⁺) + λw⁺)``, ``θ = (w, b)``; that is,

    ``θ⁺ = argmin_θ  η ℓ(w·x + b, y) + ηλ/2 ‖w‖² + ½ ‖w - w_old‖² + (b - b_old)²/(2δ)``

where δ, the damping, is 1, or less where the bias should move more slowly than the weights. With
``L = 1 + ηλ`` and ``g = ℓ'(p⁺, y)`` the solution is ``w⁺ = (w - ηg x)/L``, ``b⁺ = b - δηg``, and

    ``p⁺ = w·x/L + b - η(‖x‖²/L + δ) g``:

one scalar equation, which every loss solves (`implicit_derivative`). No step can overshoot, so no
learning rate makes it diverge. The averaged form is AI-SGD. The part of another penalty that is not
quadratic, such as an L1 norm, is not inside the equation: it follows as a proximal step of length
η (with it, each evaluation of the equation would cost O(nnz)).
"""

from monro._jit import kernel
from monro.linear.algorithms.sgd_base import Descent
from monro.linear.descent_state import SMALLEST_SCALE, DescentState, add_iterate, add_row, flush
from monro.linear.examples import Examples, look_ahead
from monro.losses import Loss, implicit_derivative, value
from monro.penalties import Penalty, catch_up, catch_up_all, implicit_divisor, postpone
from monro.rows import Array, dot, sqnorm
from monro.schedules import Schedule, rate


@kernel
def implicit_sweep(
    loss: Loss,
    penalty: Penalty,
    examples: Examples,
    order: Array,
    schedule: Schedule,
    damping: float,
    state: DescentState,
) -> float:
    """Take a step on each example of `order`; return the loss summed *before* each step."""
    rows = examples.rows
    r = state.r
    s = state.scale[0]
    b = state.bias[0]
    t = state.t[0]
    total = 0.0
    for j in range(order.size):
        look_ahead(examples, order, j, r)
        i = order[j]
        y = examples.y[i]
        catch_up(penalty, rows, i, r)
        d = s * dot(rows, i, r)
        total += examples.weight[i] * value(loss, d + b, y)

        eta = rate(schedule, t)
        L = implicit_divisor(penalty, eta)
        s /= L
        if s < SMALLEST_SCALE:
            flush(state.average, r)
            catch_up_all(penalty, r)
            for k in range(r.size):
                r[k] *= s
            s = 1.0
        step = examples.weight[i] * eta
        length = sqnorm(rows, i) / L + damping
        if length > 0.0:
            g = implicit_derivative(loss, d / L + b, y, step * length)
            if g != 0.0:
                c = -step * g / (L * s)
                add_row(state.average, rows, i, c, r)
                b -= step * damping * g
        postpone(penalty, eta, s)
        add_iterate(state.average, s, b)
        t += 1.0
    catch_up_all(penalty, r)
    state.scale[0] = s
    state.bias[0] = b
    state.t[0] = t
    return total


class Implicit(Descent):
    """The solvers "implicit" and, with averaging, "aisgd"."""

    kernel = staticmethod(implicit_sweep)
