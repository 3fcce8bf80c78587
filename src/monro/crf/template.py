"""CRF++ templates: the features of a token, made of its columns and those of its neighbours.

``U01:%x[-1,0]/%x[0,1]`` defines a feature for each combination of previous word and part of speech,
with a weight for each tag. A line that begins with ``B`` defines features of pairs of tags.
"""

import re
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from monro.errors import DataError

_MACRO = re.compile(r"%%|%x\[\s*(-?\d{1,4})\s*,\s*(\d{1,4})\s*\]|%")
_SHAPE = "write %x[row,column], such as %x[-1,0]"


class Place(NamedTuple):
    """A column of the token at offset `row` from the current one."""

    row: int
    column: int


class Template(NamedTuple):
    """A line of a template file: literal texts, with a place (``%x[row,column]``) between them."""

    texts: tuple[str, ...]
    places: tuple[Place, ...]

    @property
    def text(self) -> str:
        """The line."""
        parts = [part.replace("%", "%%") for part in self.texts]
        places = [f"%x[{place.row},{place.column}]" for place in self.places]
        return "".join(map("".join, zip_longest(parts, places, fillvalue="")))

    @property
    def of_pairs(self) -> bool:
        """Whether its features depend on the previous tag, too."""
        return self.texts[0].startswith("B")


def parse(text: str, name: object = "template") -> list[Template]:
    r"""Read the lines of a template; `name` is for messages.

    Examples
    --------
    >>> for template in parse("# words\nU00:%x[0,0]\nU01:%x[-1,0]/%x[0,0]\n\nB"):
    ...     print(template.texts, [tuple(place) for place in template.places])
    ('U00:', '') [(0, 0)]
    ('U01:', '/', '') [(-1, 0), (0, 0)]
    ('B',) []
    """
    found: list[Template] = []
    for number, line in enumerate(text.split("\n"), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        if line[0] not in "UB":
            raise DataError(
                f"a template begins with U or B, this line with {line[0]!r}", name, number,
                "write # before a comment",
            )  # fmt: skip
        template = _parse_line(line)
        if template is None:
            raise DataError(f"{line!r} has an unknown macro", name, number, _SHAPE)
        if template in found:
            raise DataError(f"the line {line!r} stands here twice", name, number, "remove one")
        found.append(template)
    if not found:
        raise DataError("the template has no lines", name, cure="write U00:%x[0,0] and B")
    return found


def _parse_line(line: str) -> Template | None:
    """Return the template of a line, or None if it has an unknown macro."""
    texts, places, end = [""], [], 0
    for macro in _MACRO.finditer(line):
        texts[-1] += line[end : macro.start()]
        end = macro.end()
        if macro[0] == "%":
            return None
        if macro[0] == "%%":
            texts[-1] += "%"
        else:
            places.append(Place(int(macro[1]), int(macro[2])))
            texts.append("")
    texts[-1] += line[end:]
    return Template(tuple(texts), tuple(places))


def read_template(template: str | Path) -> list[Template]:
    r"""Read a template, given as text or as a file.

    Parameters
    ----------
    template : str or Path
        The template itself if it holds a newline or ``%x``, else the name of its file.

    Examples
    --------
    >>> len(read_template("U00:%x[0,0]\nB"))
    2
    """
    if isinstance(template, str) and ("\n" in template or "%x" in template):
        return parse(template)
    try:
        text = Path(template).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DataError("there is no such file", template, cure="check its name") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no UTF-8"
        raise DataError(f"the template cannot be read ({reason.lower()})", template) from None
    return parse(text, template)


def default_template(n_columns: int) -> str:
    """Return the default template for tokens of that many columns: neighbours and their pairs.

    Examples
    --------
    >>> print(default_template(1))
    U0:%x[-2,0]
    U1:%x[-1,0]
    U2:%x[0,0]
    U3:%x[1,0]
    U4:%x[2,0]
    U5:%x[-1,0]/%x[0,0]
    U6:%x[0,0]/%x[1,0]
    B
    """
    lines = []
    for column in range(n_columns):
        lines += [f"%x[{row},{column}]" for row in range(-2, 3)]
        lines += [f"%x[-1,{column}]/%x[0,{column}]", f"%x[0,{column}]/%x[1,{column}]"]
    return "\n".join([*(f"U{k}:{line}" for k, line in enumerate(lines)), "B"])


def check_columns(templates: list[Template], n_columns: int, name: object = "template") -> None:
    """Raise if a template refers to a column that tokens do not have."""
    for template in templates:
        for place in template.places:
            if place.column >= n_columns:
                raise DataError(
                    f"{template.texts[0]}%x[{place.row},{place.column}] asks for column "
                    f"{place.column}, the tokens have columns 0 to {n_columns - 1}",
                    name,
                )
