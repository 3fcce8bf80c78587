"""Penalties ``R(w)``: what a problem adds to the mean loss, as a function of the weights alone.

A penalty may have two parts. A *quadratic* part scales all weights equally: with ``w = s·r`` a step
multiplies s (`shrinkage`) or divides it (`implicit_divisor`), in O(1). Any other part, such as an
L1 norm, acts on each coordinate separately, as a proximal step after the step on an example.
Coordinates that are zero in an example's row may take that step later, and several at once: a
kernel calls `postpone` after each step, `catch_up` before it reads the coordinates of a row, and
`catch_up_all` before it multiplies r by s or returns. A step thus costs O(nnz), and nothing is
postponed between two sweeps: states and files need not hold it.

For a ridge, which is quadratic, these three functions do nothing and compile to nothing. Every
penalty has a field `strength`, the `alpha` of estimators: the larger it is, the faster learning
rates fall. A penalty whose other part is an L1 norm, and nothing else, returns the factor of that
norm from `l1_strength`: solvers that minimise over one coordinate at a time need no more.
"""

from typing import Any, NamedTuple, Self

import numpy as np

from monro._jit import generic, lanes_generic, leaf
from monro.rows import Array, Rows, update_each, updated

Penalty = Any  # one of the classes below; Numba resolves which


@generic
def strong_convexity(penalty: Penalty) -> float:
    """Return the largest λ such that ``R(w) - λ/2 ‖w‖²`` is convex."""
    return float(penalty.strong_convexity())


@generic
def shrinkage(penalty: Penalty, step: float) -> float:
    """Return the factor by which an explicit step on the quadratic part multiplies the weights."""
    return float(penalty.shrinkage(step))


@generic
def implicit_divisor(penalty: Penalty, step: float) -> float:
    """Return the number by which an implicit step on the quadratic part divides the weights."""
    return float(penalty.implicit_divisor(step))


@generic
def postpone(penalty: Penalty, step: float, scale: float) -> None:
    """Record that a proximal step of this length is due on all coordinates of ``w = scale·r``."""
    penalty.postpone(step, scale)


@generic
def catch_up(penalty: Penalty, rows: Rows, i: int, r: Array) -> None:
    """Take the postponed steps on the coordinates of row i."""
    penalty.catch_up(rows, i, r)


@generic
def catch_up_all(penalty: Penalty, r: Array) -> None:
    """Take the postponed steps on all coordinates."""
    penalty.catch_up_all(r)


@generic
def class_shrinkage(penalty: Penalty, eta: Any, k: int) -> Any:
    """Return the factor by which an implicit step of rate η shrinks the weights of class k."""
    return penalty.class_shrinkage(eta, k)


@lanes_generic("class_shrinkage")
def lanes_class_shrinkage(penalty: Penalty, eta: Any, k: int) -> Any:
    """Return `class_shrinkage` in loops over classes, which may vectorise."""
    return penalty.class_shrinkage(eta, k)


@leaf
def soft_threshold(value: float, threshold: float) -> float:
    """Return ``argmin_w (w - value)²/2 + threshold |w|``: the value, moved towards 0."""
    return max(value - threshold, 0.0) + min(value + threshold, 0.0)


class Ridge(NamedTuple):
    """``strength/2 ‖w‖²``.

    Examples
    --------
    >>> import numpy as np
    >>> penalty = Ridge(0.5)
    >>> penalty.value(np.array([1.0, 2.0]))
    1.25
    >>> penalty.shrinkage(0.1), penalty.implicit_divisor(0.1)
    (0.95, 1.05)
    """

    strength: float

    @property
    def has_kink(self) -> bool:
        """Whether a solver must be able to take proximal steps."""
        return False

    def value(self, w: Array) -> float:
        """Return ``R(w)``."""
        return 0.5 * self.strength * float(np.vdot(w, w))

    def with_scratch(self, size: int) -> Self:
        """Return the penalty with scratch buffers for one sweep over this many coordinates."""
        return self

    def strong_convexity(self):  # type: ignore[no-untyped-def]
        return self.strength

    def shrinkage(self, step):  # type: ignore[no-untyped-def]
        return 1.0 - step * self.strength

    def implicit_divisor(self, step):  # type: ignore[no-untyped-def]
        return 1.0 + step * self.strength

    def postpone(self, step, scale):  # type: ignore[no-untyped-def]
        pass

    def catch_up(self, rows, i, r):  # type: ignore[no-untyped-def]
        pass

    def catch_up_all(self, r):  # type: ignore[no-untyped-def]
        pass


class ElasticNet(NamedTuple):
    """``strength (l1_ratio ‖w‖₁ + (1 - l1_ratio)/2 ‖w‖²)``: weights that do not help are 0.

    The proximal step of length η on the L1 norm moves each weight towards 0 by ``η·strength·
    l1_ratio``, and no further. All coordinates owe the same, so one sum holds what they owe, and a
    coordinate takes its due when it is next read (cumulative penalty; Tsuruoka et al., 2009). That
    is exact: soft thresholds add up. The sum is in units of r, where ``w = scale·r``, so that what
    was owed before a change of the scale stays right after it.

    Examples
    --------
    >>> import numpy as np
    >>> penalty = ElasticNet(0.5, 0.2)
    >>> round(penalty.value(np.array([1.0, -2.0])), 10)  # 0.5 (0.2·3 + 0.4·5)
    1.3
    >>> penalty = ElasticNet(0.5, 1.0).with_scratch(2)
    >>> r = np.array([1.0, -0.01])
    >>> for _ in range(3):
    ...     penalty.postpone(step=0.1, scale=1.0)
    >>> penalty.catch_up_all(r)
    >>> [round(float(each), 10) for each in r]
    [0.85, 0.0]
    """

    strength: float
    l1_ratio: float
    owed: Array = np.zeros(1)  # by each coordinate of r, since the sweep began
    paid: Array = np.zeros(0)  # of that, by each coordinate

    @property
    def has_kink(self) -> bool:
        """Whether a solver must be able to take proximal steps."""
        return self.l1_strength() > 0.0

    def value(self, w: Array) -> float:
        """Return ``R(w)``."""
        l2_strength = self.strength * (1.0 - self.l1_ratio)
        return self.l1_strength() * float(np.abs(w).sum()) + 0.5 * l2_strength * float(
            np.vdot(w, w)
        )

    def l1_strength(self) -> float:
        """Return the factor of ``‖w‖₁``."""
        return self.strength * self.l1_ratio

    def with_scratch(self, size: int) -> Self:
        """Return the penalty with scratch buffers for one sweep over this many coordinates."""
        return self._replace(owed=np.zeros(1), paid=np.zeros(size))

    def strong_convexity(self):  # type: ignore[no-untyped-def]
        return self.strength * (1.0 - self.l1_ratio)

    def shrinkage(self, step):  # type: ignore[no-untyped-def]
        return 1.0 - step * self.strength * (1.0 - self.l1_ratio)

    def implicit_divisor(self, step):  # type: ignore[no-untyped-def]
        return 1.0 + step * self.strength * (1.0 - self.l1_ratio)

    def postpone(self, step, scale):  # type: ignore[no-untyped-def]
        self.owed[0] += step * self.strength * self.l1_ratio / abs(scale)

    def updated(self, k, value):  # type: ignore[no-untyped-def]
        due = self.owed[0] - self.paid[k]
        self.paid[k] = self.owed[0]
        return soft_threshold(value, due)

    def catch_up(self, rows, i, r):  # type: ignore[no-untyped-def]
        update_each(rows, i, self, r)

    def catch_up_all(self, r):  # type: ignore[no-untyped-def]
        for k in range(r.size):
            r[k] = updated(self, k, r[k])


class RidgePerClass(NamedTuple):
    """``Σ_k strength_k/2 ‖w_k‖²``: the ridge of a softmax, for steps that touch a few classes."""

    strength: Array  # (slots,): μβ_k/N, where 1/β_k is the chance that a step touches class k

    def class_shrinkage(self, eta, k):  # type: ignore[no-untyped-def]
        one = self.strength.dtype.type(1.0)
        return one / (one + eta * self.strength[k])
