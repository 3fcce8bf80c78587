"""Extreme-classification text: a header ``rows features labels``, then ``l1,l2 f:v f:v …``.

Features and labels are numbered from 0. The line of a row without a label begins with a blank, or
with its first feature.
"""

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

import numpy as np

from monro.data.scan import RowBlock, scan_block
from monro.errors import DataError


class Header(NamedTuple):
    """The first line of a file."""

    rows: int
    features: int
    labels: int


def parse_header(line: bytes) -> Header | None:
    r"""Return the header if a line is one, else None.

    Examples
    --------
    >>> parse_header(b"4880 1836 159\n")
    Header(rows=4880, features=1836, labels=159)
    >>> parse_header(b"1 3:0.5 7:1\n") is None
    True
    """
    words = line.split()
    if len(words) != 3 or not all(word.isdigit() and len(word) < 19 for word in words):
        return None
    return Header(*map(int, words))


def xc_blocks(texts: Iterator[tuple[bytes, int]], name: str) -> tuple[Header, Iterator[RowBlock]]:
    """Read the header; return it and the blocks of rows."""
    text, line = next(texts, (b"\n", 1))
    first, rest = text[: text.index(b"\n") + 1], text[text.index(b"\n") + 1 :]
    header = parse_header(first)
    if header is None:
        raise DataError(
            "the header is not three whole numbers", name, line, "begin with 'rows features labels'"
        )
    return header, _rows(header, chain([(rest, line + 1)], texts), name)


def _rows(header: Header, texts: Iterator[tuple[bytes, int]], name: str) -> Iterator[RowBlock]:
    count = 0
    for text, line in texts:
        block = scan_block(text, line, name)
        count += block.ends.size
        if count > header.rows:
            extra = int(block.lines[header.rows - count])
            raise DataError(f"the header says {header.rows:,} rows, here is another", name, extra)
        _check_bound(block.columns, block.ends, block, header.features, "feature", name)
        _check_bound(block.labels, block.label_ends, block, header.labels, "label", name)
        yield block
    if count < header.rows:
        raise DataError(
            f"the header says {header.rows:,} rows, the file has {count:,}",
            name,
            cure="copy it again, or correct the header",
        )


def _check_bound(
    numbers: np.ndarray, ends: np.ndarray, block: RowBlock, bound: int, what: str, name: str
) -> None:
    wrong = np.flatnonzero((numbers < 0) | (numbers >= bound) | (numbers != np.floor(numbers)))
    if wrong.size:
        row = np.searchsorted(ends, wrong[0], side="right")
        raise DataError(
            f"the {what} {numbers[wrong[0]]:g} is none of 0…{bound - 1:,}",
            name,
            int(block.lines[row]),
            "correct it, or the header",
        )
