"""A table of coefficients with standard errors and confidence intervals."""

from typing import NamedTuple

import numpy as np
from scipy.stats import norm

from monro.rows import Array


class Summary(NamedTuple):
    """Coefficients with standard errors and confidence intervals; ``print`` shows a table.

    ``pandas.DataFrame(summary._asdict())`` is a data frame of it.

    Examples
    --------
    >>> print(summarise(["price", "size"], [-1.5, 0.25], [0.1, 0.5]))
    name   coefficient  std. error  [ 95 % interval ]
    price      -1.5000      0.1000  -1.6960  -1.3040
    size        0.2500      0.5000  -0.7300   1.2300
    """

    name: list[str]
    coefficient: Array
    std_error: Array
    lower: Array
    upper: Array
    level: float

    def __str__(self) -> str:
        width = max([4, *map(len, self.name)])
        title = f"[ {100 * self.level:g} % interval ]"
        lines = [f"{'name':{width}}  coefficient  std. error  {title}"]
        for name, c, e, low, high in zip(*self[:5], strict=True):
            lines.append(f"{name:{width}}  {c:11.4f}  {e:10.4f}  {low:7.4f}  {high:7.4f}")
        return "\n".join(lines)


def summarise(names: list[str], coefficients: Array, errors: Array, level: float = 0.95) -> Summary:
    """Return the summary, with Gaussian confidence intervals of the given level."""
    if not 0.0 < level < 1.0:
        raise ValueError(f"level={level!r}: give a number between 0 and 1")
    coefficients, errors = np.asarray(coefficients, float), np.asarray(errors, float)
    half_width = norm.isf(0.5 - 0.5 * level) * errors
    lower, upper = coefficients - half_width, coefficients + half_width
    return Summary(list(names), coefficients, errors, lower, upper, float(level))
