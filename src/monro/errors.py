"""Errors monro raises besides the ValueError and TypeError of scikit-learn's conventions.

Each message is one line: where (file and line, row, or parameter), what is wrong, what to do
(docs/errors.md).
"""


class MonroError(Exception):
    """Base of monro's own errors."""


class DataError(MonroError, ValueError):
    """A data file cannot be read; the message names file and line.

    Examples
    --------
    >>> raise DataError("a value is missing", "train.svm", 3, "write feature:value")
    Traceback (most recent call last):
    monro.errors.DataError: train.svm, line 3: a value is missing; write feature:value
    """

    def __init__(self, what: str, path: object, line: int | None = None, cure: str = ""):
        where = f"{path}, line {line}" if line is not None else f"{path}"
        super().__init__(f"{where}: {what}" + (f"; {cure}" if cure else ""))


class ModelFileError(MonroError, ValueError):
    """A file is no model, is damaged, or comes from a newer monro."""


class CheckpointError(MonroError, ValueError):
    """A checkpoint belongs to another fit."""


class MissingExtraError(MonroError, ImportError):
    """An optional package is needed; the message says how to install it."""


class DivergenceError(MonroError, ArithmeticError):
    """A solver left the range of floating point numbers; the message says what to change."""


class ClusterError(MonroError, RuntimeError):
    """The cluster is too small, or loses workers faster than work is done."""
