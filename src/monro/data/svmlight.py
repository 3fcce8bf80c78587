"""svmlight (libsvm) files: ``label feature:value … # comment`` on each line, features in order.

Features may be numbered from 0 or from 1: the file that has a feature 0 numbers from 0.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from monro.data.scan import RowBlock, scan_block
from monro.errors import DataError


def svmlight_blocks(
    texts: Iterable[tuple[bytes, int]], name: str, labelled: bool
) -> Iterator[RowBlock]:
    """Read rows; each must have a label if `labelled`."""
    for text, line in texts:
        block = scan_block(text, line, name)
        if labelled:
            bare = np.flatnonzero(np.diff(block.label_ends, prepend=0) == 0)
            if bare.size:
                raise DataError(
                    "the line has no label",
                    name,
                    int(block.lines[bare[0]]),
                    "begin it with a number",
                )
        yield block
