"""CoNLL columns: a token a line, its columns parted by blanks, the last one its tag.

A blank line ends a sentence.
"""

from pathlib import Path
from typing import NamedTuple

from monro.data.files import display_name, line_blocks
from monro.errors import DataError

Token = tuple[str, ...]


class Sentences(NamedTuple):
    """Sentences, and the tag of each of their tokens."""

    tokens: list[list[Token]]
    tags: list[list[str]]


def read_conll(path: str | Path) -> Sentences:
    r"""Read sentences and tags.

    Parameters
    ----------
    path : str or Path
        The file, plain or packed by gzip or Zstandard; ``"-"`` is standard input.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     _ = file.write(b"He PRP B-NP\nruns VBZ B-VP\n\nYes UH B-INTJ\n"); file.flush()
    ...     sentences = read_conll(file.name)
    >>> sentences.tokens[0]
    [('He', 'PRP'), ('runs', 'VBZ')]
    >>> sentences.tags
    [['B-NP', 'B-VP'], ['B-INTJ']]
    """
    name = display_name(path)
    found = Sentences([], [])
    tokens: list[Token] = []
    tags: list[str] = []
    width = 0
    for block, first in line_blocks(path):
        try:
            text = block.decode("utf-8")
        except UnicodeDecodeError as error:
            line = first + block.count(b"\n", 0, error.start)
            raise DataError("the text is not UTF-8", name, line, "convert it") from None
        for line, words in enumerate(text.split("\n")[:-1], first):
            *columns, tag = words.split() or [""]
            if not tag:
                if tokens:
                    found.tokens.append(tokens)
                    found.tags.append(tags)
                    tokens, tags = [], []
                continue
            width = width or len(columns) + 1
            if len(columns) + 1 != width:
                raise DataError(
                    f"the line has {len(columns) + 1} columns, those before it {width}",
                    name,
                    line,
                    "give every token the same columns",
                )
            if not columns:
                raise DataError(
                    "the line has one column", name, line, "give each token a word and a tag"
                )
            tokens.append(tuple(columns))
            tags.append(tag)
    if tokens:
        found.tokens.append(tokens)
        found.tags.append(tags)
    if not found.tokens:
        raise DataError("the file has no sentences", name)
    return found
