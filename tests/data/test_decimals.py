"""Decimal text to doubles: the same bits as Python's `float`."""

import struct

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from monro.data.scan import scan_block

plain = settings(max_examples=300, deadline=None, derandomize=True)


def read_number(text):
    """Read one value through the scanner."""
    return scan_block(f"0 1:{text}\n".encode(), 1, "text").values[0]


def same_bits(a, b):
    return struct.pack("d", a) == struct.pack("d", b)


@plain
@given(st.floats(allow_nan=False, allow_infinity=False))
@example(2.2250738585072014e-308)
@example(5e-324)
@example(1.7976931348623157e308)
@example(9007199254740993.0)
def test_every_double_reads_back(value):
    assert same_bits(read_number(repr(value)), value + 0.0)


@plain
@given(st.integers(0, 10**25), st.integers(-60, 60), st.integers(0, 30), st.sampled_from("eE"))
def test_any_digits_and_exponent_round_as_python_does(digits, exponent, point, letter):
    text = str(digits)
    text = text[:point] + "." + text[point:] + f"{letter}{exponent}"
    assert same_bits(read_number(text), float(text))


@pytest.mark.parametrize(
    "text",
    [
        # The midpoint of two doubles, and one digit to either side.
        "9007199254740993",
        "9007199254740993.0000000000000000001",
        "9007199254740992.9999999999999999999",
        "9007199254740995e-5",
        "8.5e22",
        "1e23",
        "8.41e21",
        "5708990770823839524233143877797980545530986496",
        "2.22507385850720138e-308",
        "6.631236846766476e-316",
        "0.000000000000000000000000000000000000000000000000000001",
        "123456789012345678901234567890",
        "00000000000000000000000000000012345.6789",
        ".5",
        "5.",
        "-0.0",
        "+7",
        "1E+2",
        "1e-2",
        "0e99999999",
        "1" + "0" * 300,
        "0." + "0" * 100_000 + "1e100050",
        "1" + "0" * 100_030 + "e-100020",
        "0." + "0" * 300 + "1",
    ],
)
def test_hard_cases(text):
    assert read_number(text) == float(text)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None, derandomize=True)
def test_many_random_numbers_of_17_digits(seed):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(1000) * 10.0 ** rng.integers(-30, 30, 1000)
    words = " ".join(f"{k}:{v!r}" for k, v in enumerate(values.tolist()))
    np.testing.assert_array_equal(scan_block(f"0 {words}\n".encode(), 1, "").values, values)
