"""Row shards: parts of the rows, which workers hold or process in turn."""

from typing import Any, NamedTuple

from monro.rows import Array


class RowShard(NamedTuple):
    """Some of the rows of a fit."""

    X: Any  # CSR matrix or array, in the precision of the fit
    y: Array  # (rows,): codes of the classes
    weight: Array  # (rows,): of mean 1 over all shards
    sqnorm: Array  # (rows,): ‖x_i‖²; empty for models that do not use it
