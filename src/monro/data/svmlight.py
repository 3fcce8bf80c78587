"""svmlight (libsvm) files: ``label feature:value … # comment`` on each line, features in order.

Features are numbered from 0 if a feature 0 occurs in the file, else from 1.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from monro.data.scan import RowBlock, scan_block
from monro.errors import DataError


def svmlight_blocks(
    texts: Iterable[tuple[bytes, int]], name: str, labelled: bool
) -> Iterator[RowBlock]:
    """Yield the rows of blocks of text; each row must have a label if `labelled`."""
    for text, line in texts:
        block = scan_block(text, line, name)
        if labelled:
            unlabelled = np.flatnonzero(np.diff(block.label_ends, prepend=0) == 0)
            if unlabelled.size:
                raise DataError(
                    "the line has no label",
                    name,
                    int(block.lines[unlabelled[0]]),
                    "begin it with a number",
                )
        yield block
