"""Errors that monro raises besides the ValueError and TypeError of scikit-learn's conventions.

Each message is one line: where (file and line, row, or parameter), what is wrong, what to do
(docs/errors.md).
"""


class MonroError(Exception):
    """Base of monro's own errors.

    Examples
    --------
    >>> issubclass(DataError, MonroError), issubclass(DataError, ValueError)
    (True, True)
    """


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
    """A file is not a model, is damaged, or was written by a newer version of monro.

    Examples
    --------
    >>> import tempfile
    >>> import monro
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     _ = file.write(b"no model"); file.flush()
    ...     try:
    ...         monro.load(file.name)
    ...     except ModelFileError as error:
    ...         print("model" in str(error))
    True
    """


class CheckpointError(MonroError, ValueError):
    """A checkpoint belongs to another fit: other data or other parameters.

    Examples
    --------
    >>> import tempfile
    >>> from monro import LinearClassifier
    >>> X, y = [[0.0], [1.0]], [0, 1]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = LinearClassifier(random_state=0).fit(X, y, checkpoint=f"{folder}/run")
    ...     try:
    ...         LinearClassifier(alpha=1.0, random_state=0).fit(X, y, checkpoint=f"{folder}/run")
    ...     except CheckpointError as error:
    ...         print("alpha" in str(error))
    True
    """


class NotEnoughMemoryError(MonroError, MemoryError):
    """A model needs more memory than is free; the message says how much, and what to do.

    Examples
    --------
    >>> import numpy as np
    >>> from monro import SoftmaxClassifier
    >>> try:
    ...     SoftmaxClassifier(classes=np.arange(10**6)).fit(np.zeros((2, 10**6)), [0, 1])
    ... except NotEnoughMemoryError as error:
    ...     print("1,000,000 classes" in str(error))
    True
    """


class MissingExtraError(MonroError, ImportError):
    """An optional package is missing; the message says how to install it.

    Examples
    --------
    >>> issubclass(MissingExtraError, ImportError)
    True
    """


class DivergenceError(MonroError, ArithmeticError):
    """A solver diverged to infinite or undefined numbers; the message says what to change.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from monro import LinearRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> try:
    ...     LinearRegressor(solver="sgd", learning_rate=1e9).fit(X, y)
    ... except DivergenceError as error:
    ...     print("diverged" in str(error))
    True
    """


class ClusterError(MonroError, RuntimeError):
    """The cluster is too small, or keeps losing workers.

    Examples
    --------
    >>> issubclass(ClusterError, RuntimeError)
    True
    """
