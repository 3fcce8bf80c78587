"""Commands, run in this process or as the shell runs them."""

import subprocess
import sys

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


def failure(*arguments, **options):
    """Run the program as the shell does; return its one line of complaint."""
    result = subprocess.run(
        [sys.executable, "-m", "monro", *map(str, arguments)],
        capture_output=True,
        text=True,
        **options,
    )
    assert result.returncode == 1, (result.returncode, result.stderr)
    complaint = result.stderr.splitlines()[-1]
    assert complaint.startswith("monro: ")
    assert "Traceback" not in result.stderr
    return complaint.removeprefix("monro: ")
