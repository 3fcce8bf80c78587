"""A short run of the fuzzer, and regression tests of what long runs found."""

import pytest

from tests import fuzz


def test_some_thousand_mutated_inputs(tmp_path):
    counts = fuzz.run(6_000, 0, tmp_path)
    assert min(counts.values()) > 50


def test_a_feature_after_a_comma_is_no_label():
    fuzz.check_rows(b"3,1,0:1.25 7:1\n")


@pytest.mark.parametrize("text", fuzz.ROWS)
def test_the_slow_reader_reads_the_seeds(text):
    assert fuzz.slow_rows(text) is not None
    fuzz.check_rows(text)
