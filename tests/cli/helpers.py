"""Commands, run in this process or as the shell runs them."""

import io
import subprocess
import sys
from contextlib import redirect_stderr
from unittest import mock

import pytest
from typer.testing import CliRunner

from monro import cli

runner = CliRunner()


def invoke(*arguments, **options):
    """Run a command in this process; return its result."""
    return runner.invoke(cli.app, [str(a) for a in arguments], catch_exceptions=True, **options)


def output(*arguments, **options):
    result = invoke(*arguments, **options)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout


def failure(*arguments):
    """Run the program as far as its own end; return its one line of complaint."""
    told = io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["monro", *map(str, arguments)]),
        redirect_stderr(told),
        pytest.raises(SystemExit) as end,
    ):
        cli.main()
    return _complaint(end.value.code, told.getvalue())


def process_failure(*arguments, **options):
    """Run the program as the shell does; return its one line of complaint."""
    command = [sys.executable, "-m", "monro", *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, **options)
    return _complaint(result.returncode, result.stderr)


def _complaint(code, text):
    assert code == 1, (code, text)
    complaint = text.splitlines()[-1]
    assert complaint.startswith("monro: ")
    assert "Traceback" not in text
    return complaint.removeprefix("monro: ")
