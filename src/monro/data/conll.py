"""CoNLL files: one token per line, in columns separated by blanks; the last column is the tag.

A blank line ends a sentence.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from monro.data.files import display_name, line_blocks
from monro.errors import DataError

Token = tuple[str, ...]

_BLOCK_TOKENS = 1 << 16  # of the sentences yielded at a time, at least


class Sentences(NamedTuple):
    """Sentences as lists of tokens, and the tags of the tokens."""

    tokens: list[list[Token]]
    tags: list[list[str]]


def read_conll(path: str | Path) -> Sentences:
    r"""Read the sentences and tags of a file.

    Parameters
    ----------
    path : str or Path
        The file, plain or compressed by gzip or Zstandard; ``"-"`` is standard input.

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
    found = Sentences([], [])
    for block in conll_blocks(path):
        found.tokens.extend(block.tokens)
        found.tags.extend(block.tags)
    return found


def conll_blocks(path: str | Path, *, tagged: bool = True) -> Iterator[Sentences]:
    """Yield the sentences of a file, some thousands at a time.

    Parameters
    ----------
    path : str or Path
        As in `read_conll`.
    tagged : bool
        Whether the last column is the tag; if not, the tags are empty.
    """
    name = display_name(path)
    found = Sentences([], [])
    rows: list[list[str]] = []
    width = size = 0
    empty = True
    for block, first in line_blocks(path):
        try:
            text = block.decode("utf-8")
        except UnicodeDecodeError as error:
            line = first + block.count(b"\n", 0, error.start)
            raise DataError("the text is not UTF-8", name, line, "convert it") from None
        plain = block.isascii()
        for line, words in enumerate(text.split("\n")[:-1], first):
            # A word may hold other kinds of white space, such as thin spaces within numbers.
            columns = words.split() if plain else _split_at_blanks(words)
            if not columns:
                _end_sentence(rows, found, tagged)
                size += len(rows)
                rows = []
                if size >= _BLOCK_TOKENS:
                    yield found
                    found, size, empty = Sentences([], []), 0, False
                continue
            width = width or len(columns)
            if len(columns) != width:
                raise DataError(
                    f"the line has {len(columns)} columns, those before it {width}",
                    name,
                    line,
                    "give every token the same columns",
                )
            if width < 1 + tagged:
                raise DataError(
                    "the line has one column", name, line, "give each token a word and a tag"
                )
            rows.append(columns)
    _end_sentence(rows, found, tagged)
    if found.tokens:
        yield found
    elif empty:
        raise DataError("the file has no sentences", name)


def _split_at_blanks(words: str) -> list[str]:
    return [word for word in words.rstrip("\r").replace("\t", " ").split(" ") if word]


def _end_sentence(rows: list[list[str]], found: Sentences, tagged: bool) -> None:
    if not rows:
        return
    width = len(rows[0]) - tagged
    found.tokens.append([tuple(row[:width]) for row in rows])
    found.tags.append([row[-1] for row in rows] if tagged else [])
