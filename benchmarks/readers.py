"""Reading svmlight text, against scikit-learn's loader; converting it to a store."""

import gzip
import shutil
import tempfile
from pathlib import Path
from typing import Any

from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from benchmarks.datasets import zipf_rows
from benchmarks.harness import markdown, median_seconds
from monro.data.convert import convert
from monro.data.read import read


def _counts_text(path: Path, n: int) -> None:
    """Write counts of words: short numbers."""
    X = zipf_rows(n, 47_000, 75)
    X.data[:] = 1 + (X.indices % 5)
    dump_svmlight_file(X, [k % 2 for k in range(n)], str(path), zero_based=False)


def _exact_text(path: Path, n: int) -> None:
    """Write unit rows with 17 digits per value."""
    X = zipf_rows(n, 47_000, 75)
    with path.open("w") as file:
        for i in range(n):
            part = slice(X.indptr[i], X.indptr[i + 1])
            pairs = zip(X.indices[part].tolist(), X.data[part].tolist(), strict=True)
            file.write(f"{i % 2} {' '.join(f'{c + 1}:{v!r}' for c, v in pairs)}\n")


def run(*, quick: bool) -> dict[str, Any]:
    n, repeats = (2_000, 1) if quick else (100_000, 5)
    results = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for name, write in (("counts", _counts_text), ("17 digits", _exact_text)):
            path = folder / "rows.svm"
            write(path, n)
            size = path.stat().st_size / 1e6
            packed = folder / "rows.svm.gz"
            packed.write_bytes(gzip.compress(path.read_bytes(), 6))

            def store(path: Path = path) -> None:
                convert(path, folder / "store")
                shutil.rmtree(folder / "store")

            seconds = median_seconds(
                {
                    "monro": lambda path=path: read(path),
                    "scikit-learn": lambda path=path: load_svmlight_file(str(path)),
                    "monro, gzip": lambda packed=packed: read(packed),
                    "scikit-learn, gzip": lambda packed=packed: load_svmlight_file(str(packed)),
                    "monro, to a store": store,
                },
                repeats,
            )
            for reader, took in seconds.items():
                row = {"text": name, "megabytes": size, "reader": reader, "rate": size / took}
                results.append(row)
                print(row, flush=True)
    return {"rows": n, "results": results}


def table(result: dict[str, Any]) -> str:
    texts = list(dict.fromkeys(row["text"] for row in result["results"]))
    readers = list(dict.fromkeys(row["reader"] for row in result["results"]))
    rates = {(row["text"], row["reader"]): row for row in result["results"]}
    heads = [f"{t}, {rates[t, readers[0]]['megabytes']:.0f} MB" for t in texts]
    return markdown(
        ["reader", *(f"{head}: MB/s" for head in heads)],
        [[reader, *(f"{rates[t, reader]['rate']:.0f}" for t in texts)] for reader in readers],
    )
