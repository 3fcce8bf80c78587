"""Text files as blocks of whole lines: plain, gzip, Zstandard, or standard input."""

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

BLOCK = 1 << 23  # bytes to read at a time
_NEWLINE = np.uint8(ord("\n"))
_GZIP = b"\x1f\x8b"
_ZSTANDARD = b"\x28\xb5\x2f\xfd"
_COMPRESSED_BLOCK = 1 << 12  # compressed bytes to read at a time


@kernel
def count_byte(text: Array, byte: Any) -> int:
    """Count a byte; vectorised, several times as fast as `bytes.count` for a frequent byte."""
    total = 0
    for k in range(text.size):
        total += text[k] == byte
    return total


def is_stdin(path: object) -> bool:
    """Return whether a path stands for standard input."""
    return str(path) == "-"


def display_name(path: object) -> str:
    """Return the name of a path in messages."""
    return "standard input" if is_stdin(path) else str(path)


class _Pushback:
    """A stream whose first bytes were already read, to detect its format."""

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
    """Decompresses consecutive frames; raises EOFError if the last one is truncated."""

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
        self._in_frame = False
        self.Error = zstandard.ZstdError

    def read(self, size: int) -> bytes:
        """Return about `size` bytes, b"" at the end."""
        texts: list[bytes] = []
        length = 0
        while length < size:
            rest = b""
            if self._frame.eof:
                rest = self._frame.unused_data
                self._frame, self._in_frame = self._new(), False
            # In small pieces: a few compressed bytes may decompress to megabytes.
            packed = rest or self._source.read(_COMPRESSED_BLOCK)
            if not packed:
                if self._in_frame:
                    raise EOFError
                break
            self._in_frame = True
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


def _decompressed(raw: BinaryIO) -> Any:
    """Return the stream of decompressed bytes."""
    first = raw.read(4)
    stream = _Pushback(first, raw)
    if first.startswith(_GZIP):
        return gzip.GzipFile(fileobj=stream)  # type: ignore[call-overload]
    if first.startswith(_ZSTANDARD):
        return _Zstandard(stream)
    return stream


def is_compressed(path: object) -> bool:
    """Return whether a file is compressed, by its first bytes."""
    with _open(path) as raw:
        return bool(raw.read(4).startswith((_GZIP, _ZSTANDARD)))


def byte_chunks(path: object, size: int | None = None) -> Iterator[bytes]:
    """Yield the decompressed bytes of a file, about `size` at a time.

    Compression is detected by the first bytes, not by the name.
    """
    name = display_name(path)
    try:
        with _open(path) as raw:
            stream = _decompressed(raw)
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


def _without_byte_order_mark(texts: Iterator[bytes]) -> Iterator[bytes]:
    """Drop the byte order mark that some editors write."""
    yield next(texts, b"").removeprefix(b"\xef\xbb\xbf")
    yield from texts


def line_blocks(path: object, size: int | None = None) -> Iterator[tuple[bytes, int]]:
    r"""Yield blocks of whole lines, each with the number of its first line.

    A newline is appended to the last line of the file if it is missing. A block has about `size`
    bytes (default: 8 MiB), but lines are never split.

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
    for text in _without_byte_order_mark(byte_chunks(path, size)):
        cut = text.rfind(b"\n") + 1
        if cut == 0:  # also if the text is empty
            pending.append(text)
            continue
        block = b"".join([*pending, text[:cut]])
        pending = [text[cut:]] if cut < len(text) else []
        yield block, line
        line += count_byte(np.frombuffer(block, np.uint8), _NEWLINE)
    if rest := b"".join(pending):
        yield rest + b"\n", line
