"""Files as blocks of whole lines: plain, gzip, Zstandard, or standard input."""

import gzip
import sys
import zlib
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any, BinaryIO

import numpy as np

from monro._jit import kernel
from monro.errors import DataError, MissingExtraError
from monro.rows import Array

BLOCK = 1 << 23
_NEWLINE = np.uint8(ord("\n"))
_GZIP = b"\x1f\x8b"
_ZSTANDARD = b"\x28\xb5\x2f\xfd"
_PACKED = 1 << 12


@kernel
def count_byte(text: Array, byte: Any) -> int:
    """Count a byte: vectorised, several times as fast as `bytes.count` where it is frequent."""
    total = 0
    for k in range(text.size):
        total += text[k] == byte
    return total


def is_stdin(path: object) -> bool:
    """Tell whether a path stands for standard input."""
    return str(path) == "-"


def display_name(path: object) -> str:
    """Return what to call a path in messages."""
    return "standard input" if is_stdin(path) else str(path)


class _Pushback:
    """A stream whose first bytes were read before, to see what it is."""

    def __init__(self, first: bytes, rest: BinaryIO):
        self.first = first
        self.rest = rest

    def read(self, size: int = -1) -> bytes:
        if not self.first:
            return self.rest.read(size)
        if size < 0:
            first, self.first = self.first, b""
            return first + self.rest.read()
        head, self.first = self.first[:size], self.first[size:]
        return head


class _Zstandard:
    """Decompresses one frame after the other; raises EOFError where the last is cut short."""

    def __init__(self, source: Any):
        try:
            import zstandard
        except ImportError:
            raise MissingExtraError(
                "reading .zst files needs zstandard: pip install 'monro[data]'"
            ) from None
        self._source = source
        self._new = zstandard.ZstdDecompressor().decompressobj
        self._frame = self._new()
        self._begun = False
        self.Error = zstandard.ZstdError

    def read(self, size: int) -> bytes:
        """Return about `size` bytes, b"" at the end."""
        texts: list[bytes] = []
        length = 0
        while length < size:
            rest = b""
            if self._frame.eof:
                rest = self._frame.unused_data
                self._frame, self._begun = self._new(), False
            # Little at a time: a few bytes may stand for megabytes.
            packed = rest or self._source.read(_PACKED)
            if not packed:
                if self._begun:
                    raise EOFError
                break
            self._begun = True
            try:
                texts.append(self._frame.decompress(packed))
            except self.Error as error:
                raise zlib.error(str(error)) from None
            length += len(texts[-1])
        return b"".join(texts)


def _open(path: object) -> Any:
    """Open a file, or standard input."""
    if is_stdin(path):
        return nullcontext(sys.stdin.buffer)
    try:
        return open(str(path), "rb")
    except FileNotFoundError:
        raise DataError("there is no such file", path, cure="check its name") from None
    except IsADirectoryError:
        raise DataError("it is a directory, not a file", path) from None
    except PermissionError:
        raise DataError("it may not be read", path, cure="ask for permission") from None


def _unpacked(raw: BinaryIO) -> Any:
    """Return the stream of uncompressed bytes."""
    first = raw.read(4)
    whole = _Pushback(first, raw)
    if first.startswith(_GZIP):
        return gzip.GzipFile(fileobj=whole)  # type: ignore[call-overload]
    if first.startswith(_ZSTANDARD):
        return _Zstandard(whole)
    return whole


def is_packed(path: object) -> bool:
    """Tell whether a file is compressed."""
    with _open(path) as raw:
        return bool(raw.read(4).startswith((_GZIP, _ZSTANDARD)))


def chunks(path: object, size: int | None = None) -> Iterator[bytes]:
    """Yield a file's bytes, uncompressed, some at a time.

    A file is known to be compressed by its first bytes, whatever its name.
    """
    name = display_name(path)
    try:
        with _open(path) as raw:
            stream = _unpacked(raw)
            while text := stream.read(size or BLOCK):
                yield text
    except EOFError:
        raise DataError(
            "the compressed data is cut short", name, cure="copy or download the file again"
        ) from None
    except (zlib.error, gzip.BadGzipFile) as error:
        raise DataError(
            f"the compressed data is damaged ({error})", name, cure="copy the file again"
        ) from None


def _without_mark(texts: Iterator[bytes]) -> Iterator[bytes]:
    """Leave out the byte order mark some editors write."""
    yield next(texts, b"").removeprefix(b"\xef\xbb\xbf")
    yield from texts


def line_blocks(path: object, size: int | None = None) -> Iterator[tuple[bytes, int]]:
    r"""Yield blocks of whole lines, each with the number of its first line.

    The last line of the file gets its newline if it lacks one. A block is about `size` bytes
    (8 MiB), but a single line is never cut.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     _ = file.write(b"one\ntwo\nthree"); file.flush()
    ...     list(line_blocks(file.name, 5))
    [(b'one\n', 1), (b'two\n', 2), (b'three\n', 3)]
    """
    line = 1
    pending: list[bytes] = []
    for text in _without_mark(chunks(path, size)):
        cut = text.rfind(b"\n") + 1
        if cut == 0:  # also where there is no text at all
            pending.append(text)
            continue
        block = b"".join([*pending, text[:cut]])
        pending = [text[cut:]] if cut < len(text) else []
        yield block, line
        line += count_byte(np.frombuffer(block, np.uint8), _NEWLINE)
    if rest := b"".join(pending):
        yield rest + b"\n", line
