"""Stochastic gradient descent (paper 002, Algorithms 1-3; papers 003 and 004: SVMSGD2).

Minimise ``F(w, b) = λ/2 ‖w‖² + mean_i ℓ(w·x_i + b, y_i)`` by steps on one example at a time,

    ``w ← w - η_t (ℓ'(p, y_i) x_i + λ w)``,   ``b ← b - η_t·damping·ℓ'(p, y_i)``.

``w = s·r``: the ridge's shrinkage is one multiplication of s, so a step costs O(nnz). With
``η_t = 1/(λt)`` the scale is ``s_t = 1/t`` and r is -1/λ times the gradient sum v of Algorithm 1.
The part of another penalty that is not quadratic follows as a proximal step of length η_t.
"""

from monro._jit import kernel
from monro.linear.algorithms.sgd_base import Descent
from monro.linear.descent_state import SMALLEST_SCALE, DescentState, add_iterate, add_row, flush
from monro.linear.examples import Examples, look_ahead
from monro.losses import Loss, derivative, value
from monro.penalties import Penalty, catch_up, catch_up_all, postpone, shrinkage
from monro.rows import Array, dot
from monro.schedules import Schedule, rate


@kernel
def sgd_sweep(
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
        p = s * dot(rows, i, r) + b
        total += examples.weight[i] * value(loss, p, y)
        g = examples.weight[i] * derivative(loss, p, y)

        eta = rate(schedule, t)
        s *= shrinkage(penalty, eta)
        if abs(s) < SMALLEST_SCALE:  # at the first step of 1/(λt) it is 0
            flush(state.average, r)
            catch_up_all(penalty, r)
            for k in range(r.size):
                r[k] *= s
            s = 1.0
        if g != 0.0:
            c = -eta * g / s
            add_row(state.average, rows, i, c, r)
        b -= eta * damping * g
        postpone(penalty, eta, s)
        add_iterate(state.average, s, b)
        t += 1.0
    catch_up_all(penalty, r)
    state.scale[0] = s
    state.bias[0] = b
    state.t[0] = t
    return total


class Sgd(Descent):
    """The solvers "sgd" and, with averaging, "asgd" and "casgd"."""

    kernel = staticmethod(sgd_sweep)
