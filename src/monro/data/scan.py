"""A parser for text rows ``label,label feature:value feature:value … # comment``.

The svmlight and the extreme-classification formats share this syntax; `svmlight.py` and `xc.py` add
what is specific to each.
"""

from typing import Any, NamedTuple

import numpy as np

from monro._jit import literal_kernel, literal_leaf
from monro.data.decimals import INVALID, UNDECIDED, VALID, scan_decimal
from monro.data.files import count_byte
from monro.errors import DataError
from monro.rows import Array


class RowBlock(NamedTuple):
    """Some rows of a file. The values of row i are ``values[ends[i-1]:ends[i]]``."""

    values: Array
    columns: Array  # as numbered in the file
    ends: Array
    labels: Array
    label_ends: Array
    lines: Array  # the line number of each row


_NEWLINE, _RETURN, _BLANK, _TAB, _HASH, _COLON, _COMMA, _DIGIT_0, _Q, _MINUS = (
    np.uint8(ord(c)) for c in "\n\r \t#:,0q-"
)
_QID = np.frombuffer(b"qid:", np.uint8)
LARGEST_COLUMN = 2**31 - 2

# Error codes of `scan_rows`; the messages are below.
_NO_LABEL_NUMBER, _NO_FEATURE, _NEGATIVE, _TOO_LARGE, _NO_VALUE, _NO_BLANK, _UNSORTED = range(1, 8)
_MESSAGES = {
    _NO_LABEL_NUMBER: ("the label {} is not a number", "begin each line with a number"),
    _NO_FEATURE: ("{} is no feature:value", "write a whole number, a colon and a number"),
    _NEGATIVE: ("{} has a negative feature number", "number features from 0 or 1"),
    _TOO_LARGE: (
        "{} has a feature number above 2,147,483,646",
        "hash or renumber the features",
    ),
    _NO_VALUE: (
        "the value of {} is not a number",
        "give a finite number, or leave the feature out",
    ),
    _NO_BLANK: ("{} follows a number without a blank", "separate features by blanks"),
    _UNSORTED: (
        "the feature {} is repeated, or out of order",
        "sort the features of each line by number, and give each once",
    ),
}


@literal_leaf
def _skip_blanks(text: Array, k: int) -> int:
    while text[k] == _BLANK or text[k] == _TAB or text[k] == _RETURN:
        k += 1
    return k


@literal_leaf
def _next_line(text: Array, k: int) -> int:
    while text[k] != _NEWLINE:
        k += 1
    return k + 1


@literal_leaf
def _ends_number(byte: int) -> bool:
    """Return whether a byte may follow a number."""
    return byte in (_BLANK, _NEWLINE, _TAB, _RETURN, _HASH)


@literal_leaf
def _is_qid(text: Array, k: int) -> bool:
    j = 0
    while j < 4 and text[k + j] == _QID[j]:  # never past the newline that ends the text
        j += 1
    return j == 4


@literal_kernel
def scan_rows(
    text: Array,
    values: Array,
    columns: Array,
    ends: Array,
    labels: Array,
    label_ends: Array,
    lines: Array,
    redo: Array,
) -> tuple[int, int, int, int, int]:
    """Parse whole lines into preallocated arrays.

    Return the number of rows, the number of rows of `redo`, an error code (0: none) and the start
    and end of the faulty text. A row of `redo` holds the index of an undecided value, which Python
    has to convert (-1 - k for label k), and the start and end of its text.
    """
    k = 0
    row = n_values = n_labels = n_redo = line = 0
    while k < text.size:
        k = _skip_blanks(text, k)
        if text[k] == _NEWLINE or text[k] == _HASH:
            k = _next_line(text, k)
            line += 1
            continue

        first = True
        while True:  # labels: numbers separated by commas; a number before a colon is a feature
            label, status, end = scan_decimal(text, k)
            if status == INVALID:
                return row, n_redo, _NO_LABEL_NUMBER, k, end
            if first and text[end] == _COLON:
                break
            first = False
            labels[n_labels] = label
            if status == UNDECIDED:
                redo[n_redo, 0], redo[n_redo, 1], redo[n_redo, 2] = -1 - n_labels, k, end
                n_redo += 1
            n_labels += 1
            if text[end] != _COMMA:
                if not _ends_number(text[end]):
                    return row, n_redo, _NO_LABEL_NUMBER, k, end
                k = end
                break
            k = end + 1

        last = -1
        while True:  # features
            k = _skip_blanks(text, k)
            if text[k] == _NEWLINE or text[k] == _HASH:
                break
            if text[k] == _Q and _is_qid(text, k):
                while not _ends_number(text[k]):
                    k += 1
                continue
            start = k
            column: Any = 0
            while text[k] - _DIGIT_0 <= 9:
                column = min(10 * column + np.int64(text[k] - _DIGIT_0), LARGEST_COLUMN + 1)
                k += 1
            if k == start:
                wrong = _NEGATIVE if text[k] == _MINUS else _NO_FEATURE
                return row, n_redo, wrong, start, k
            if column > LARGEST_COLUMN:
                return row, n_redo, _TOO_LARGE, start, k
            if text[k] != _COLON:
                return row, n_redo, _NO_FEATURE, start, k
            if column <= last:
                return row, n_redo, _UNSORTED, start, k
            last = column
            value, status, end = scan_decimal(text, k + 1)
            if status == INVALID:
                return row, n_redo, _NO_VALUE, start, end
            if not _ends_number(text[end]):
                return row, n_redo, _NO_BLANK, start, end
            if status == UNDECIDED:
                redo[n_redo, 0], redo[n_redo, 1], redo[n_redo, 2] = n_values, k + 1, end
                n_redo += 1
            values[n_values] = value
            columns[n_values] = column
            n_values += 1
            k = end
        ends[row] = n_values
        label_ends[row] = n_labels
        lines[row] = line
        row += 1
        k = _next_line(text, k)
        line += 1
    return row, n_redo, VALID, 0, 0


def _token(text: bytes, start: int, end: int) -> str:
    """Return the word at a faulty position, shortened for a message."""
    stop = end
    while text[stop : stop + 1] not in (b" ", b"\t", b"\n", b"\r", b"#", b""):
        stop += 1
    word = text[start:stop].decode("utf-8", "replace")
    return repr(word if len(word) <= 40 else word[:37] + "…")


def scan_block(text: bytes, first_line: int, name: str) -> RowBlock:
    """Parse the rows of a block of whole lines; raise a `DataError` with file and line."""
    array = np.frombuffer(text, np.uint8)
    most_values = count_byte(array, _COLON)
    rows = count_byte(array, _NEWLINE)
    most_labels = rows + count_byte(array, _COMMA)
    values, columns = np.empty(most_values), np.empty(most_values, np.int32)
    ends, label_ends, lines = (np.empty(rows, np.int64) for _ in range(3))
    labels = np.empty(most_labels)
    redo = np.empty((most_values + most_labels, 3), np.int64)
    row, n_redo, wrong, start, end = scan_rows(
        array, values, columns, ends, labels, label_ends, lines, redo
    )
    if wrong:
        what, cure = _MESSAGES[wrong]
        line = first_line + text.count(b"\n", 0, start)
        raise DataError(what.format(_token(text, start, end)), name, line, cure)
    for which, start, end in redo[:n_redo]:
        number = float(text[start:end])
        if not np.isfinite(number):
            line = first_line + text.count(b"\n", 0, start)
            what = f"{_token(text, start, end)} is beyond the range of numbers"
            raise DataError(what, name, line, "give values below 1e308")
        if which >= 0:
            values[which] = number
        else:
            labels[-1 - which] = number
    n_values = int(ends[row - 1]) if row else 0
    n_labels = int(label_ends[row - 1]) if row else 0
    return RowBlock(
        values[:n_values],
        columns[:n_values],
        ends[:row],
        labels[:n_labels],
        label_ends[:row],
        first_line + lines[:row],
    )
