"""Mutated files for the readers and the model loader: no crash, no hang, no silent wrong shape.

    python -m tests.fuzz 1000000

runs a million inputs; the tests run some thousands. Rows of text are also read by a slow reference
parser of a few lines: both must agree on every number, or both must reject the input.
"""

import gzip
import re
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import monro
from monro.data.conll import read_conll
from monro.data.convert import convert
from monro.data.read import read
from monro.data.scan import scan_block
from monro.data.store import open_store
from monro.errors import MonroError
from monro.saving.container import read_container

NUMBER = rb"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
LABELS = re.compile(rb"(?:%s)(?:,%s)*(?=[ \t\r#]|$)" % (NUMBER, NUMBER))
FEATURE = re.compile(rb"(\d+):(%s)" % NUMBER)
ALPHABET = b"0123456789:,.+-eE #\n\r\t qidnaf\x00\xff"

ROWS = [
    b"1 1:0.5 3:2\n-1 2:1e-3 # comment\n\n+1 qid:4 1:1\n",
    b"3,1 0:1.25 7:-2.5e10\n1.5 0:0\n2\n",
    b"0 1:123456789012345678901 2:0.000000000000000000000000001\n",
]
XC = [b"3 5 4\n0,2 0:1 4:2\n 1:3\n1 2:1\n"]
CONLL = ["He PRP B-NP\nruns VBZ B-VP\n\nÉcoute UH O\n".encode()]
CSV = [b"a,b,label\n1,2,x\n3,4.5,y\n", b"1\t2\n3\t4\n"]


def mutated(seed, rng):
    """Return a seed with some bytes changed, removed, repeated, or swapped for typical ones."""
    text = bytearray(seed)
    for _ in range(rng.integers(1, 6)):
        at = int(rng.integers(len(text) + 1))
        kind = rng.integers(6)
        if kind == 0 and text:
            text[min(at, len(text) - 1)] = ALPHABET[rng.integers(len(ALPHABET))]
        elif kind == 1:
            text[at:at] = bytes([ALPHABET[rng.integers(len(ALPHABET))]])
        elif kind == 2:
            del text[at : at + int(rng.integers(1, 8))]
        elif kind == 3:
            text[at:at] = text[at : at + int(rng.integers(1, 20))]
        elif kind == 4 and text:
            text[min(at, len(text) - 1)] = rng.integers(256)
        else:
            text[at:at] = str(10 ** int(rng.integers(25))).encode()
    return bytes(text)


def slow_rows(text):
    """Parse rows by regular expressions; None if they are malformed."""
    rows = []
    for line in text.split(b"\n"):
        line = line.split(b"#")[0].strip(b" \t\r")
        if not line:
            continue
        labels, features = [], {}
        match = LABELS.match(line)
        if match:
            labels = [float(word) for word in match[0].split(b",")]
            line = line[match.end() :]
        last = -1
        for word in re.split(rb"[ \t\r]+", line.strip(b" \t\r")):
            if word == b"" or (word.startswith(b"qid:") and (match or rows is not None)):
                continue
            match_feature = FEATURE.fullmatch(word)
            if not match_feature:
                return None
            column, value = int(match_feature[1]), float(match_feature[2])
            if column <= last or column > 2**31 - 2 or not np.isfinite(value):
                return None
            features[column] = value
            last = column
        if not np.isfinite(labels).all():
            return None
        rows.append((labels, features))
    return rows


def check_rows(text):
    text = text if text.endswith(b"\n") else text + b"\n"
    expected = slow_rows(text)
    try:
        block = scan_block(text, 1, "fuzz")
    except MonroError as error:
        assert "\n" not in str(error)
        assert expected is None or _begins_oddly(text), text
        return
    assert expected is not None, text
    assert block.ends.size == len(expected), text
    starts, label_starts = np.append(0, block.ends), np.append(0, block.label_ends)
    for k, (labels, features) in enumerate(expected):
        cells = slice(starts[k], starts[k + 1])
        assert block.labels[label_starts[k] : label_starts[k + 1]].tolist() == labels, text
        assert block.columns[cells].tolist() == list(features), text
        assert block.values[cells].tolist() == list(features.values()), text


def _begins_oddly(text):
    """Return whether a line begins with a query id, which only the slow parser accepts."""
    return any(line.strip(b" \t\r").startswith(b"qid:") for line in text.split(b"\n"))


def check_read(path, text):
    path.write_bytes(text)
    try:
        data = read(path, labelled=False)
    except MonroError as error:
        assert "\n" not in str(error)
        return
    rows, width = data.X.shape
    assert rows > 0
    assert width == data.layout.n_features > 0
    assert data.y is None or data.y.size == rows
    if hasattr(data.X, "indices"):
        data.X.check_format()
        assert data.X.has_sorted_indices
    assert np.isfinite(data.X.data if hasattr(data.X, "indices") else data.X).all()


def check_conll(path, text):
    path.write_bytes(text)
    try:
        found = read_conll(path)
    except MonroError as error:
        assert "\n" not in str(error)
        return
    assert [len(s) for s in found.tokens] == [len(tags) for tags in found.tags]


def check_model(path, text, intact):
    path.write_bytes(text)
    try:
        monro.load(path)
    except MonroError as error:
        assert "\n" not in str(error)
        return
    # White space in the header may differ.
    found, wanted = (read_container(p, "model") for p in (path, intact))
    assert found.about == wanted.about
    assert found.arrays.keys() == wanted.arrays.keys()
    for name, array in wanted.arrays.items():
        assert array.shape == found.arrays[name].shape
        assert array.tobytes() == found.arrays[name].tobytes()


def check_store(folder, name, text):
    before = (folder / name).read_bytes()
    (folder / name).write_bytes(text)
    try:
        data = open_store(folder)
        assert data.X.shape == (data.y.size, data.layout.n_features)
        assert data.X.indptr[-1] == data.X.data.size == data.X.indices.size
    except MonroError as error:
        assert "\n" not in str(error)
    finally:
        (folder / name).write_bytes(before)


def run(inputs, seed, folder):
    """Try `inputs` mutated inputs; return the number of each kind."""
    rng = np.random.default_rng(seed)
    folder = Path(folder)
    X = rng.normal(size=(30, 3))
    model_file = folder / "model.monro"
    monro.LinearClassifier(solver="asgd", alpha=1e-5, random_state=0).fit(X, X[:, 0] > 0).save(
        model_file
    )
    model = model_file.read_bytes()
    rows_file = folder / "rows.svm"
    rows_file.write_bytes(ROWS[0])
    convert(rows_file, folder / "store")
    stored = {path.name: path.read_bytes() for path in (folder / "store").iterdir()}
    names = sorted(stored)
    counts = dict.fromkeys(("rows", "svmlight", "xc", "gzip", "conll", "csv", "model", "store"), 0)
    shares = np.array([0.6, 0.08, 0.08, 0.02, 0.06, 0.02, 0.1, 0.04])
    for kind in rng.choice(list(counts), size=inputs, p=shares):
        counts[str(kind)] += 1
        if kind == "rows":
            check_rows(mutated(ROWS[rng.integers(len(ROWS))], rng))
        elif kind == "svmlight":
            check_read(folder / "a.svm", mutated(ROWS[rng.integers(len(ROWS))], rng))
        elif kind == "xc":
            check_read(folder / "a.txt", mutated(XC[0], rng))
        elif kind == "gzip":
            check_read(folder / "a.gz", mutated(gzip.compress(ROWS[0]), rng))
        elif kind == "conll":
            check_conll(folder / "a.conll", mutated(CONLL[0], rng))
        elif kind == "csv":
            check_read(folder / "a.csv", mutated(CSV[rng.integers(len(CSV))], rng))
        elif kind == "model":
            check_model(folder / "a.monro", mutated(model, rng), model_file)
        else:
            name = names[rng.integers(len(names))]
            check_store(folder / "store", name, mutated(stored[name], rng))
    return counts


if __name__ == "__main__":
    begin = time.perf_counter()
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as scratch:
        seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
        print(run(int(sys.argv[1]), seed, scratch))
    print(f"{time.perf_counter() - begin:.0f} s")
