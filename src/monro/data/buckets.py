"""The first pass of a shuffle on disk: each row is written to a random bucket file."""

from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

import numpy as np

from monro.rows import Array

_BUCKET_BYTES = 1 << 25
_MAX_BUCKETS = 500  # all files are open at once
_SPLIT_FACTOR = 4  # a bucket of more than this times _BUCKET_BYTES is split
_DEFAULT_BUCKETS = 256  # if the size is not known in advance


class RowBatch(NamedTuple):
    """Some rows in CSR form, with lengths of rows instead of pointers, and their labels."""

    values: Array
    columns: Array
    lengths: Array
    labels: Array


def permute_rows(rows: RowBatch, order: Array) -> RowBatch:
    """Return the rows in the given order."""
    indptr = np.append(0, np.cumsum(rows.lengths))
    lengths = rows.lengths[order]
    ends = np.cumsum(lengths)
    # The source of each element: the old start of its row plus its position within the row.
    cells = np.repeat(indptr[order] - (ends - lengths), lengths)
    cells += np.arange(cells.size)
    return RowBatch(rows.values[cells], rows.columns[cells], lengths, rows.labels[order])


def bucket_count(size: float | None) -> int:
    """Return the number of buckets for rows of `size` bytes in all; None if unknown."""
    if size is None:
        return _DEFAULT_BUCKETS
    return int(np.clip(np.ceil(size / _BUCKET_BYTES), 1, _MAX_BUCKETS))


class Buckets:
    """Bucket files. Each holds a sequence of records: counts, lengths, labels, columns, values."""

    def __init__(self, folder: Path, count: int, dtype: Any):
        self.folder = folder
        self.paths = [folder / f"bucket{k}" for k in range(count)]
        self.files: list[IO[bytes]] = [path.open("wb") for path in self.paths]
        self.dtype = dtype
        self.rows = 0
        self.nonzeros = 0
        self.lowest: int | None = None  # of all columns
        self.highest = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for file in self.files:
            file.close()

    def put(self, part: RowBatch, rng: np.random.Generator) -> None:
        """Append each row to a random bucket."""
        which = rng.integers(len(self.files), size=part.labels.size)
        order = np.argsort(which, kind="stable")
        part = permute_rows(part, order)
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

    def drain(self, rng: np.random.Generator) -> Iterator[RowBatch]:
        """Yield the rows of each bucket and delete its file; split buckets that are too large."""
        for file, path in zip(self.files, self.paths, strict=True):
            file.close()
            size = path.stat().st_size
            if size > _SPLIT_FACTOR * _BUCKET_BYTES:  # the size was unknown or underestimated
                count = min(_DEFAULT_BUCKETS, -(-size // _BUCKET_BYTES))
                inner = Path(f"{path}.parts")
                inner.mkdir()
                with Buckets(inner, count, self.dtype) as smaller:
                    for part in self._records(path):
                        smaller.put(part, rng)
                    path.unlink()
                    yield from smaller.drain(rng)
                continue
            fields: list[Any] = [list(parts) for parts in zip(*self._records(path), strict=True)]
            path.unlink()
            if fields:
                yield RowBatch(*map(_concatenate_and_free, fields))

    def _records(self, path: Path) -> Iterator[RowBatch]:
        with path.open("rb") as bucket:
            while (counts := np.fromfile(bucket, np.int64, 2)).size:
                rows, cells = counts
                lengths = np.fromfile(bucket, np.int64, rows)
                labels = np.fromfile(bucket, np.float64, rows)
                columns = np.fromfile(bucket, np.int32, cells)
                values = np.fromfile(bucket, self.dtype, cells)
                yield RowBatch(values, columns, lengths, labels)


def _concatenate_and_free(arrays: list[Array]) -> Array:
    """Return the arrays concatenated, and empty the list to release their memory."""
    whole = np.concatenate(arrays)
    arrays.clear()
    return whole
