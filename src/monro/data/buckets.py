"""Rows on their way to a store: files on disk, each row in a random one."""

from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

import numpy as np

from monro.rows import Array

_BUCKET_BYTES = 1 << 25
_MOST_BUCKETS = 500  # files open at once
_TOO_LARGE = 4  # times as large as it should be is a bucket that has to be parted
_BUCKETS = 256  # where the size is not known beforehand


class Part(NamedTuple):
    """Some rows."""

    values: Array
    columns: Array
    lengths: Array
    labels: Array


def rows_in_order(part: Part, order: Array) -> Part:
    """Return the rows in another order."""
    indptr = np.append(0, np.cumsum(part.lengths))
    lengths = part.lengths[order]
    ends = np.cumsum(lengths)
    # The cell each new cell comes from: its row's old start, and its place in the row.
    cells = np.repeat(indptr[order] - (ends - lengths), lengths)
    cells += np.arange(cells.size)
    return Part(part.values[cells], part.columns[cells], lengths, part.labels[order])


def count_for(size: float | None) -> int:
    """Return how many buckets suit rows of so many bytes; None where nobody knows."""
    if size is None:
        return _BUCKETS
    return int(np.clip(np.ceil(size / _BUCKET_BYTES), 1, _MOST_BUCKETS))


class Buckets:
    """Files of rows, each row in a random one; records of lengths, labels, columns, values."""

    def __init__(self, folder: Path, count: int, dtype: Any):
        self.folder = folder
        self.paths = [folder / f"bucket{k}" for k in range(count)]
        self.files: list[IO[bytes]] = [path.open("wb") for path in self.paths]
        self.dtype = dtype
        self.rows = 0
        self.nonzeros = 0
        self.lowest: int | None = None  # column
        self.highest = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for file in self.files:
            file.close()

    def put(self, part: Part, rng: np.random.Generator) -> None:
        """Append each row to a random bucket."""
        which = rng.integers(len(self.files), size=part.labels.size)
        order = np.argsort(which, kind="stable")
        part = rows_in_order(part, order)
        rows = np.append(0, np.cumsum(np.bincount(which, minlength=len(self.files))))
        cells = np.append(0, np.cumsum(part.lengths))
        with np.errstate(over="ignore"):
            values = part.values.astype(self.dtype)
        if not np.isfinite(values).all():
            large = part.values[~np.isfinite(values)][0]
            raise ValueError(
                f"dtype={self.dtype.name!r}: the value {large:g} is beyond its range; use float64"
            )
        self.rows += part.labels.size
        self.nonzeros += part.values.size
        if part.columns.size:
            low = int(part.columns.min())
            self.lowest = low if self.lowest is None else min(self.lowest, low)
            self.highest = max(self.highest, int(part.columns.max()))
        for file, start, stop in zip(self.files, rows, rows[1:], strict=False):
            if start == stop:
                continue
            first, last = cells[start], cells[stop]
            np.array([stop - start, last - first]).tofile(file)
            part.lengths[start:stop].tofile(file)
            part.labels[start:stop].tofile(file)
            part.columns[first:last].astype(np.int32).tofile(file)
            values[first:last].tofile(file)

    def take(self, rng: np.random.Generator) -> Iterator[Part]:
        """Give back the rows, bucket by bucket, deleting each."""
        for file, path in zip(self.files, self.paths, strict=True):
            file.close()
            size = path.stat().st_size
            if size > _TOO_LARGE * _BUCKET_BYTES:  # more came than was expected
                count = min(_BUCKETS, -(-size // _BUCKET_BYTES))
                inner = Path(f"{path}.parts")
                inner.mkdir()
                with Buckets(inner, count, self.dtype) as smaller:
                    for part in self._records(path):
                        smaller.put(part, rng)
                    path.unlink()
                    yield from smaller.take(rng)
                continue
            fields: list[Any] = [list(parts) for parts in zip(*self._records(path), strict=True)]
            path.unlink()
            if fields:
                yield Part(*map(_joined, fields))

    def _records(self, path: Path) -> Iterator[Part]:
        with path.open("rb") as bucket:
            while (counts := np.fromfile(bucket, np.int64, 2)).size:
                rows, cells = counts
                lengths = np.fromfile(bucket, np.int64, rows)
                labels = np.fromfile(bucket, np.float64, rows)
                columns = np.fromfile(bucket, np.int32, cells)
                values = np.fromfile(bucket, self.dtype, cells)
                yield Part(values, columns, lengths, labels)


def _joined(arrays: list[Array]) -> Array:
    """Join arrays, and let go of them."""
    whole = np.concatenate(arrays)
    arrays.clear()
    return whole
