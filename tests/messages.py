"""Error messages for bad input."""

import pytest


def message(error, action, *args, **kwargs):
    """Return the error message of an action; it must be a single line."""
    with pytest.raises(error) as caught:
        action(*args, **kwargs)
    text = str(caught.value)
    assert text
    assert "\n" not in text
    return text
