"""Conversion of decimal text to the nearest double, inside kernels.

A number is ``m·10^q`` with an integer m of at most 19 digits. For m ≤ 2⁵³ and |q| ≤ 22 both factors
are exact doubles, and one rounded operation gives the nearest double (Clinger, 1990). Otherwise m
is multiplied by the first 128 bits of 10^q. The exact product is within two units of the last of
these bits; unless that interval contains the midpoint of two doubles, the nearest double is known
(after Lemire, 2021). The remaining cases, and numbers of more digits, are left to Python's `float`.
"""

import math
from typing import Any

import numpy as np

from monro._jit import literal_leaf
from monro.rows import Array

# The status of a number that was read; the value of an UNDECIDED one may not be the nearest double.
VALID, INVALID, UNDECIDED = 0, 1, 2

_PLUS, _MINUS, _POINT, _DIGIT_0 = (np.uint8(ord(c)) for c in "+-.0")
_LOWER_E, _UPPER_E = np.uint8(ord("e")), np.uint8(ord("E"))

_EXACT_POWERS = 10.0 ** np.arange(23)
_MAX_POWER = 80  # |q| in the table: far from subnormal doubles and from overflow
_MAX_DIGITS = 19  # always fit into 64 bits
_MAX_EXPONENT = 100_000  # larger ones are clipped


def _power_table() -> tuple[Array, Array, Array]:
    """Return 10^q for q = -80…80 as ``(upper·2⁶⁴ + lower)·2^exponent``, truncated."""
    upper, lower, exponents = [], [], []
    for q in range(-_MAX_POWER, _MAX_POWER + 1):
        top, bottom = (10**q, 1) if q >= 0 else (1, 10**-q)
        exponent = top.bit_length() - bottom.bit_length() - 128
        scaled = (top << max(0, -exponent)) // (bottom << max(0, exponent))
        if scaled.bit_length() > 128:
            exponent += 1
            scaled = (top << max(0, -exponent)) // (bottom << max(0, exponent))
        elif scaled.bit_length() < 128:
            exponent -= 1
            scaled = (top << max(0, -exponent)) // (bottom << max(0, exponent))
        upper.append(scaled >> 64)
        lower.append(scaled & (2**64 - 1))
        exponents.append(exponent)
    return np.array(upper, np.uint64), np.array(lower, np.uint64), np.array(exponents)


_UPPER, _LOWER, _EXPONENT = _power_table()

_ONE = np.uint64(1)
_TEN = np.uint64(10)
_TOP = np.uint64(63)
_HALF_WORD = np.uint64(32)
_LOW_HALF = np.uint64(2**32 - 1)
_ALL_ONES_BUT_LAST = np.uint64(2**64 - 2)
_ZERO = np.uint64(0)
_EXACT_INTEGERS = np.uint64(2**53)


@literal_leaf
def _product(a: Any, b: Any) -> tuple[Any, Any]:
    """Return the upper and lower 64 bits of ``a·b``."""
    a1, a0 = a >> _HALF_WORD, a & _LOW_HALF
    b1, b0 = b >> _HALF_WORD, b & _LOW_HALF
    low, cross, other = a0 * b0, a1 * b0, a0 * b1
    carry = (low >> _HALF_WORD) + (cross & _LOW_HALF) + (other & _LOW_HALF)
    upper = a1 * b1 + (cross >> _HALF_WORD) + (other >> _HALF_WORD) + (carry >> _HALF_WORD)
    return upper, (carry << _HALF_WORD) | (low & _LOW_HALF)


@literal_leaf
def nearest(m: Any, q: int) -> tuple[float, bool]:
    """Return the double nearest to ``m·10^q``, m > 0, and whether that is certain."""
    if m <= _EXACT_INTEGERS and -22 <= q <= 22:
        return (float(m) * _EXACT_POWERS[q] if q >= 0 else float(m) / _EXACT_POWERS[-q]), True
    if q < -_MAX_POWER or q > _MAX_POWER:
        return 0.0, False
    shift = 0
    for step in (32, 16, 8, 4, 2, 1):
        if m >> np.uint64(64 - step) == _ZERO:
            m <<= np.uint64(step)
            shift += step
    high, middle = _product(m, _UPPER[q + _MAX_POWER])
    add, _ = _product(m, _LOWER[q + _MAX_POWER])
    middle += add
    if middle < add:
        high += _ONE

    surplus = np.uint64(10) + (high >> _TOP)  # bits of `high` beyond the 53 of a double
    rest = high & ((_ONE << surplus) - _ONE)
    half = _ONE << (surplus - _ONE)
    known = not (
        (rest == half and middle == _ZERO) or (rest == half - _ONE and middle >= _ALL_ONES_BUT_LAST)
    )
    rounded = (high >> surplus) + (_ONE if rest >= half else _ZERO)
    exponent = np.int64(surplus) + 128 + _EXPONENT[q + _MAX_POWER] - shift
    return math.ldexp(float(rounded), int(exponent)), known


@literal_leaf
def scan_decimal(text: Array, k: int) -> tuple[float, int, int]:
    """Return the value of the number at position k, its status, and the position after it.

    The status is VALID, INVALID or UNDECIDED. The text must end in a byte that is not part of a
    number.
    """
    negative = text[k] == _MINUS
    if negative or text[k] == _PLUS:
        k += 1
    m = _ZERO
    q = 0
    significant = 0  # digits in m, from the first one that is not 0
    digits = 0
    truncated = False
    for after_point in range(2):
        if after_point == 1:
            if text[k] != _POINT:
                break
            k += 1
        while True:
            digit = text[k] - _DIGIT_0
            if digit > 9:
                break
            if significant < _MAX_DIGITS:
                m = m * _TEN + np.uint64(digit)
                q -= after_point
                if m > _ZERO:
                    significant += 1
            else:
                q += 1 - after_point
                truncated = truncated or digit != 0
            digits += 1
            k += 1
    if digits == 0:
        return 0.0, INVALID, k
    if text[k] == _LOWER_E or text[k] == _UPPER_E:
        k += 1
        negative_power = text[k] == _MINUS
        if negative_power or text[k] == _PLUS:
            k += 1
        if text[k] - _DIGIT_0 > 9:
            return 0.0, INVALID, k
        power: Any = 0
        while text[k] - _DIGIT_0 <= 9:
            power = min(10 * power + np.int64(text[k] - _DIGIT_0), _MAX_EXPONENT)
            k += 1
        truncated = truncated or power == _MAX_EXPONENT
        q += -power if negative_power else power
    if m == _ZERO:
        return 0.0, VALID, k
    value, known = nearest(m, q)
    return -value if negative else value, VALID if known and not truncated else UNDECIDED, k
