"""Runs commands, in this process or in a new one."""

import io
import subprocess
import sys
from contextlib import redirect_stderr
from unittest import mock

import pytest
from typer.testing import CliRunner

from monro import cli

runner = CliRunner()

# Fits of one strength, quicker than a choice of the strength by rows held out.
FIXED = ("--set", "alpha=1e-5")
SOFTMAX = ("--task", "softmax", "--set", "alpha=0.0")


def invoke(*arguments, **options):
    """Run a command in this process; return its result."""
    return runner.invoke(cli.app, [str(a) for a in arguments], catch_exceptions=True, **options)


def output(*arguments, **options):
    result = invoke(*arguments, **options)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout


def failure(*arguments):
    """Run the program in this process; return its one-line error message."""
    stderr = io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["monro", *map(str, arguments)]),
        redirect_stderr(stderr),
        pytest.raises(SystemExit) as end,
    ):
        cli.main()
    return _error_message(end.value.code, stderr.getvalue())


def process_failure(*arguments, **options):
    """Run the program in a new process; return its one-line error message."""
    command = [sys.executable, "-m", "monro", *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, **options)
    return _error_message(result.returncode, result.stderr)


def _error_message(code, text):
    assert code == 1, (code, text)
    message = text.splitlines()[-1]
    assert message.startswith("monro: ")
    assert "Traceback" not in text
    return message.removeprefix("monro: ")
