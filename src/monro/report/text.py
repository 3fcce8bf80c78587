"""Plain text as HTML: all text is escaped, blank lines separate paragraphs, backticks mark code."""

import html
import re

_CODE = re.compile(r"`([^`]+)`")


def escape(text: str) -> str:
    """Return text escaped for HTML, also within quotes."""
    return html.escape(text, quote=True)


def inline(text: str) -> str:
    """Return text as HTML, with code where there are backticks.

    Examples
    --------
    >>> inline("`a < b` & c")
    '<code>a &lt; b</code> &amp; c'
    """
    return _CODE.sub(r"<code>\1</code>", escape(text))


def paragraphs(text: str, kind: str = "") -> str:
    """Return text as HTML paragraphs, of the class `kind` if given."""
    start = f'<p class="{kind}">' if kind else "<p>"
    parts = [part.strip() for part in re.split(r"\n\s*\n", text)]
    return "".join(f"{start}{inline(part)}</p>" for part in parts if part)


def slug(text: str) -> str:
    """Return a name for a link.

    Examples
    --------
    >>> slug("What came out: 10× faster?")
    'what-came-out-10-faster'
    """
    return "-".join(re.findall(r"[^\W_]+", text.lower())) or "part"


class UniqueSlugs:
    """Gives each link a unique name."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def give(self, text: str) -> str:
        """Return the slug of a text, with a number appended if it is taken."""
        first = name = slug(text)
        number = 1
        while name in self._taken:
            number += 1
            name = f"{first}-{number}"
        self._taken.add(name)
        return name
