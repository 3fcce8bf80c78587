"""Errors monro raises besides the ValueError and TypeError of scikit-learn's conventions."""


class MonroError(Exception):
    """Base of monro's own errors."""


class DivergenceError(MonroError, ArithmeticError):
    """A solver left the range of floating point numbers; the message says what to change."""
