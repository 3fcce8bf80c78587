"""The large sets of paper 000, from files of the same format."""

import gzip
import hashlib

import numpy as np
import pytest
import scipy.sparse as sp

from monro.studies import data, journal
from monro.studies.study import Trial


@pytest.fixture
def written(tmp_path, monkeypatch):
    """A function that writes rows as the training file of a set."""
    monkeypatch.setenv("MONRO_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    data.truncated.cache_clear()
    journal._checksum.cache_clear()

    def write(name, X, labels):
        lines = [f"{X.shape[0]} {X.shape[1]} {1 + max(map(max, labels))}"]
        for row, of_row in zip(X, labels, strict=True):
            pairs = zip(row.indices, row.data, strict=True)
            words = [",".join(map(str, of_row)), *(f"{j}:{v:g}" for j, v in pairs)]
            lines.append(" ".join(words))
        path = tmp_path / name / "train.xc.txt.gz"
        path.parent.mkdir()
        path.write_bytes(gzip.compress(("\n".join(lines) + "\n").encode()))
        return path

    yield write
    data.truncated.cache_clear()
    journal._checksum.cache_clear()


def test_rows_and_features_are_truncated_and_empty_rows_left_out(written, monkeypatch):
    monkeypatch.setattr(data, "_MOST_ROWS", 40)
    rng = np.random.default_rng(0)
    columns = np.concatenate([rng.integers(0, 20, 50), rng.integers(9_990, 10_010, 50)])
    rows = np.tile(np.arange(50), 2)
    dense = sp.coo_matrix((rng.integers(1, 9, 100), (rows, columns)), (50, 101_938)).tolil()
    dense[3] = 0
    dense[3, 10_000] = 2.0  # the only feature of the row is cut off
    dense = dense.tocsr()
    labels = [sorted(rng.choice(30, 2, replace=False).tolist()) for _ in range(50)]
    path = written("wiki10", dense, labels)

    X, y = data.truncated("wiki10")
    expected = dense[:40].toarray()[:, :10_000]
    kept = [i for i in range(40) if expected[i].any()]
    assert 3 not in kept
    expected = expected[kept] / np.linalg.norm(expected[kept], axis=1, keepdims=True)
    np.testing.assert_allclose(X.toarray(), expected)
    assert y.tolist() == [labels[i][0] for i in kept]

    found = journal.provenance(Trial("table 1", "wiki10", {}), 0.0, alone=True)["data"]
    assert found == {"wiki10/train.xc.txt.gz": hashlib.sha256(path.read_bytes()).hexdigest()}
