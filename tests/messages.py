"""What is said to bad input."""

import pytest


def message(error, action, *args, **kwargs):
    """Return the message with which an action fails: always a single line."""
    with pytest.raises(error) as caught:
        action(*args, **kwargs)
    text = str(caught.value)
    assert text
    assert "\n" not in text
    return text
