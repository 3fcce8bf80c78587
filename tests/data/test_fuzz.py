"""A short run of the fuzzer, and what the long ones found."""

import pytest

from tests import fuzz


def test_some_thousand_mutated_inputs(tmp_path):
    counts = fuzz.run(6_000, 0, tmp_path)
    assert min(counts.values()) > 50


@pytest.mark.parametrize("text", fuzz.ROWS)
def test_the_slow_reader_reads_the_seeds(text):
    assert fuzz.slow_rows(text) is not None
    fuzz.check_rows(text)
