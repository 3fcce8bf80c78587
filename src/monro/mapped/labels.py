"""Labels in memory-mapped files, and their class codes."""

from typing import Any

import numpy as np

from monro.mapped.chunked_arrays import chunks, empty_alongside
from monro.rows import Array


class MappedLabels:
    """The labels of a store: numbers, or indices into a list of strings.

    Parameters
    ----------
    numbers : array of float64
        One for each row, usually memory-mapped.
    words : list of str, optional
        The distinct labels in sorted order, where labels are strings; `numbers` are then indices
        into this list.
    """

    def __init__(self, numbers: Array, words: Any = None):
        self.numbers = numbers
        self.words = None if words is None else np.array(words, dtype=np.str_)
        self.shape = numbers.shape

    def __len__(self) -> int:
        return int(self.numbers.size)

    @property
    def size(self) -> int:
        """The number of labels."""
        return len(self)

    @property
    def dtype(self) -> Any:
        """The type of the labels as an array: string, int64 if all are whole, else float64."""
        if self.words is not None:
            return self.words.dtype
        whole = all((chunk == np.floor(chunk)).all() for chunk in chunks(self.numbers))
        return np.dtype(np.int64 if whole else np.float64)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        labels = as_integers(np.array(self.numbers))
        return np.asarray(labels if self.words is None else self.words[labels], dtype)

    def encode(self) -> tuple[Array, Array]:
        """Return the classes that occur, and each row's class code: its index into them."""
        classes, codes = _unique_codes(self.numbers)
        classes = as_integers(classes)
        return (classes if self.words is None else self.words[classes]), codes


def as_integers(y: Array) -> Array:
    """Return labels as int64 if all of them are whole numbers, else unchanged."""
    whole = np.isfinite(y).all() and (y == np.floor(y)).all() and np.abs(y).max(initial=0) < 2**53
    return y.astype(np.int64) if whole else y


def unique_codes(y: Any) -> tuple[Array, Array]:
    """Return the sorted distinct labels, and each row's class code: its index into them.

    As ``np.unique(y, return_inverse=True)``, but with int32 codes, memory-mapped if `y` is, and a
    chunk at a time.

    Examples
    --------
    >>> unique_codes(np.array(["b", "a", "b"]))
    (array(['a', 'b'], dtype='<U1'), array([1, 0, 1], dtype=int32))
    """
    return y.encode() if isinstance(y, MappedLabels) else _unique_codes(y)


def _unique_codes(y: Array) -> tuple[Array, Array]:
    classes = np.unique(np.concatenate([np.unique(chunk) for chunk in chunks(y)]))
    codes = empty_alongside(y, np.int32)
    for label_chunk, code_chunk in zip(chunks(y), chunks(codes), strict=True):
        code_chunk[:] = np.searchsorted(classes, label_chunk)
    return classes, codes
