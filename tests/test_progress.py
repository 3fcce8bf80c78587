"""Progress on a terminal, and in plain lines."""

import io

import pytest
from rich.console import Console

from monro import progress
from monro.progress import Progress


@pytest.fixture(params=[True, False], ids=["terminal", "pipe"])
def terminal(request, monkeypatch):
    """Whether there is a terminal; and what is written."""
    file = io.StringIO()
    console = Console(file=file, force_terminal=request.param, width=80, color_system=None)
    monkeypatch.setattr(progress, "pipe_safe_console", lambda **options: console)
    return request.param, file


def test_a_step_is_beside_the_bar_or_a_line(terminal):
    is_terminal, file = terminal
    with Progress(True, "strength", 5, 100) as shown:
        for k in range(3):
            shown.step(f"alpha 1e-{k}")
    if is_terminal:  # the bar is full in the end, though there were fewer steps than possible
        last = [line for line in file.getvalue().splitlines() if "strength" in line][-1]
        assert "3/3" in last
        assert last.rstrip().endswith("alpha 1e-2")
    else:
        lines = file.getvalue().splitlines()
        assert lines == [f"strength {k + 1} of at most 5: alpha 1e-{k}" for k in range(3)]


def test_a_bar_that_was_interrupted_is_not_full(terminal):
    is_terminal, file = terminal

    def interrupted():
        with Progress(True, "strength", 5, 100) as shown:
            shown.step("alpha 1")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert "1/1" not in file.getvalue()
    assert ("1/5" in file.getvalue()) == is_terminal
