"""Data sets by name."""

import gzip
import hashlib
import http.server
import threading
from pathlib import Path

import pytest

from monro.data import registry
from monro.data.registry import File, data_sets, fetch, locate, resolve
from monro.errors import DataError
from tests.data.helpers import data_folder


@pytest.fixture
def empty(tmp_path, monkeypatch):
    """No data: neither in $MONRO_DATA nor in the cache."""
    monkeypatch.delenv("MONRO_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def test_every_file_of_the_data_folder_is_as_registered():
    folder = data_folder()
    for data_set in data_sets().values():
        for file in (*data_set.parts.values(), *data_set.extra):
            if file.sha256 is None:
                continue
            assert locate(file) == folder / file.path
            assert (folder / file.path).stat().st_size == file.bytes
            registry.verify(file, folder / file.path)
            if file.unpacked_sha256:
                text = gzip.decompress((folder / file.path).read_bytes())
                assert hashlib.sha256(text).hexdigest() == file.unpacked_sha256


def test_the_name_of_a_data_set_means_its_training_part():
    folder = data_folder()
    assert resolve("a9a") == str(folder / "a9a/a9a.svm.gz")
    assert resolve("a9a/test") == str(folder / "a9a/a9a.t.svm.gz")


def test_the_path_of_a_file_means_that_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a9a").write_text("1 1:1\n")
    assert resolve("a9a") == "a9a"
    assert resolve("-") == "-"


@pytest.mark.parametrize(
    ("name", "what"),
    [
        (
            "rvc1",
            "there is no such file, and no data set of that name; did you mean the data set rcv1?",
        ),
        ("nothing.svm", "there is no such file, and no data set of that name; check its name"),
        ("w8a/test", "the data set has no such part; it has w8a/train"),
    ],
)
def test_unknown_names(name, what):
    with pytest.raises(DataError) as caught:
        resolve(name)
    assert str(caught.value) == f"{name}: {what}"


def test_a_file_that_cannot_be_downloaded_says_where_to_put_it(empty):
    with pytest.raises(DataError, match=r"no place to download it from; put it into \$MONRO_DATA"):
        resolve("rcv1")


def test_a_damaged_file_is_detected(empty, monkeypatch):
    monkeypatch.setenv("MONRO_DATA", str(empty))
    (empty / "a9a").mkdir()
    (empty / "a9a" / "a9a.svm.gz").write_bytes(b"other")
    with pytest.raises(DataError, match="checksum differs"):
        resolve("a9a")


def test_a_file_that_we_have_not_seen_is_taken_as_it_is(empty, monkeypatch):
    """Eurlex and others: whoever has the files can use them."""
    assert not registry.is_here("eurlex")
    with pytest.raises(DataError, match=r"put it into \$MONRO_DATA"):
        resolve("eurlex")
    monkeypatch.setenv("MONRO_DATA", str(empty))
    (empty / "eurlex").mkdir()
    path = empty / "eurlex" / "train.xc.txt.gz"
    path.write_bytes(gzip.compress(b"1 5000 3993\n7 0:1\n"))
    assert registry.is_here("eurlex")
    assert resolve("eurlex") == str(path)
    assert "eurlex/train.xc.txt.gz" in registry.how_to_get("eurlex")


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture
def server(tmp_path, monkeypatch):
    folder = tmp_path / "served"
    folder.mkdir()
    monkeypatch.chdir(folder)
    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    yield folder, f"http://127.0.0.1:{running.server_address[1]}"
    running.shutdown()


def test_a_file_is_downloaded_checked_and_kept(empty, server):
    folder, address = server
    (folder / "rows").write_bytes(b"1 1:1\n")
    digest = hashlib.sha256(b"1 1:1\n").hexdigest()
    file = File("set/rows.svm.gz", 0, "", f"{address}/rows", digest)

    path = fetch(file)
    assert gzip.decompress(path.read_bytes()) == b"1 1:1\n"
    (folder / "rows").unlink()
    assert fetch(file) == path
    path.write_bytes(gzip.compress(b"changed"))
    with pytest.raises(DataError, match="checksum differs"):
        fetch(file)


@pytest.mark.parametrize("problem", ["absent", "changed"])
def test_a_download_that_fails_says_so(empty, server, problem):
    folder, address = server
    if problem == "changed":
        (folder / "rows").write_bytes(b"something else")
    file = File("set/rows.svm.gz", 0, "", f"{address}/rows", "0" * 64)
    with pytest.raises(DataError, match="cannot be downloaded") as caught:
        fetch(file)
    assert "\n" not in str(caught.value)
    assert locate(file) is None
