"""Files as blocks of lines: every compression, truncated anywhere."""

import gzip
import io
import sys

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from monro.data.files import line_blocks
from monro.errors import DataError


def compress_zstandard(text):
    return zstandard.ZstdCompressor(write_checksum=True).compress(text)


PACKINGS = {"plain": bytes, "gzip": gzip.compress, "zstandard": compress_zstandard}
packings = pytest.mark.parametrize("pack", PACKINGS.values(), ids=PACKINGS)
TEXT = b"".join(b"line %d of some text\n" % k for k in range(2000))


def joined(path, **options):
    return b"".join(block for block, _ in line_blocks(path, **options))


@packings
@given(
    lines=st.lists(st.binary(max_size=30).map(lambda b: b.replace(b"\n", b"")), max_size=20),
    size=st.integers(1, 50),
    ended=st.booleans(),
)
@settings(max_examples=30, deadline=None, derandomize=True)
def test_blocks_are_whole_lines_with_their_numbers(tmp_path_factory, pack, lines, size, ended):
    path = tmp_path_factory.mktemp("files") / "file"
    text = b"\n".join(lines) + (b"\n" if ended and lines else b"")
    path.write_bytes(pack(text))
    text = text.removeprefix(b"\xef\xbb\xbf")
    expected = text if not text or text.endswith(b"\n") else text + b"\n"

    blocks = list(line_blocks(path, size))

    assert b"".join(block for block, _ in blocks) == expected
    for k, (block, line) in enumerate(blocks):
        assert block.endswith(b"\n")
        assert line == 1 + sum(earlier.count(b"\n") for earlier, _ in blocks[:k])


@pytest.mark.parametrize("pack", [gzip.compress, compress_zstandard], ids=["gzip", "zstandard"])
def test_concatenated_compressed_files_are_read_to_the_end(tmp_path, pack):
    path = tmp_path / "file"
    path.write_bytes(pack(TEXT) + pack(TEXT))
    assert joined(path) == TEXT + TEXT


@pytest.mark.parametrize("pack", [gzip.compress, compress_zstandard], ids=["gzip", "zstandard"])
def test_truncation_anywhere_is_detected(tmp_path, pack):
    path = tmp_path / "file.packed"
    whole = pack(TEXT)
    for length in range(5, len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(DataError, match=r"file\.packed: the compressed data is (cut|damaged)"):
            joined(path)


@pytest.mark.parametrize("pack", [gzip.compress, compress_zstandard], ids=["gzip", "zstandard"])
def test_damage_is_detected(tmp_path, pack):
    path = tmp_path / "file.packed"
    whole = bytearray(pack(TEXT))
    whole[len(whole) // 2] ^= 0xFF
    path.write_bytes(whole)
    with pytest.raises(DataError, match=r"file\.packed: the compressed data is"):
        joined(path)


def test_highly_compressed_files_come_in_blocks(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(compress_zstandard(b"1 1:1\n" * 10_000_000))
    sizes = [len(block) for block, _ in line_blocks(path)]
    assert sum(sizes) == 60_000_000
    assert max(sizes) < 48 << 20


@packings
def test_standard_input(monkeypatch, pack):
    stdin = io.TextIOWrapper(io.BytesIO(pack(TEXT)))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert joined("-") == TEXT


def test_a_missing_file_is_named():
    with pytest.raises(DataError, match=r"nowhere\.svm: there is no such file; check its name"):
        joined("nowhere.svm")


def test_a_folder_is_not_a_file(tmp_path):
    with pytest.raises(DataError, match="it is a directory"):
        joined(tmp_path)


def test_a_missing_extra_is_named(tmp_path, monkeypatch):
    path = tmp_path / "file.zst"
    path.write_bytes(compress_zstandard(TEXT))
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(ImportError, match=r"pip install 'monro\[data\]'"):
        joined(path)
