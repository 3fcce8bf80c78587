"""The command line: help, version, errors and exit status."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

import monro
from monro import cli
from tests.cli.helpers import process_failure

runner = CliRunner()


def run_main(*arguments):
    """Run the program in a new process."""
    script = f"import sys; sys.argv = ['monro', *{arguments!r}]; from monro.cli import main; main()"
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)


def test_help_lists_the_commands():
    result = runner.invoke(cli.app, ["--help"])

    assert result.exit_code == 0
    assert "demo" in result.output


def test_help_of_a_command_lists_its_options():
    result = runner.invoke(cli.app, ["demo", "--help"], env={"NO_COLOR": "1", "TERM": "dumb"})

    assert result.exit_code == 0
    assert "seed" in result.output


def test_version_is_that_of_the_package():
    result = runner.invoke(cli.app, ["--version"])

    assert result.exit_code == 0
    assert result.output.strip() == f"monro {monro.__version__}"


@pytest.mark.parametrize("line", ["dmeo", "--no-such-option", "demo --seed x", "demo --jobs 0"])
def test_a_wrong_command_line_fails_and_names_the_fault(line):
    fault = next((word for word in line.split() if word.startswith("--")), line)
    result = runner.invoke(cli.app, line.split())

    assert result.exit_code != 0
    assert fault in result.output


def test_no_command_shows_the_help():
    result = runner.invoke(cli.app, [])

    assert "demo" in result.output


def test_the_program_ends_with_status_0_or_not():
    help_text = run_main("--help")
    assert help_text.returncode == 0
    assert "demo" in help_text.stdout
    wrong = run_main("dmeo")
    assert wrong.returncode != 0
    assert "Traceback" not in wrong.stderr


@pytest.mark.parametrize("error", [ValueError, OSError, ArithmeticError])
def test_bad_input_ends_with_one_line_and_status_1(error, monkeypatch, capsys):
    def fail():
        raise error("row 3 of data.txt is not a number")

    monkeypatch.setattr(cli, "app", fail)
    with pytest.raises(SystemExit) as ended:
        cli.main()

    assert ended.value.code == 1
    assert capsys.readouterr() == ("", "monro: row 3 of data.txt is not a number\n")


def test_bad_input_to_the_program_itself(tmp_path):
    assert "there is no such file" in process_failure("fit", tmp_path / "none", tmp_path / "model")


def test_help_loads_no_estimator():
    script = """
import sys
from typer.testing import CliRunner
from monro.cli import app
assert CliRunner().invoke(app, ["--help"]).exit_code == 0
slow = {"numba", "scipy", "sklearn"} & set(sys.modules)
sys.exit(f"loaded {slow}" if slow else 0)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_without_ray_the_error_says_what_to_install():
    blocked = "import sys; sys.modules['ray'] = None; from monro.cli import main; main()"
    command = [sys.executable, "-c", blocked, "fit", "x.svm", "m.monro", "--engine", "ray"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert "pip install 'monro[ray]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("options", [["--address", "auto"], ["--engine", "ray", "--task", "tag"]])
def test_options_that_need_ray_or_do_not_work_with_it_are_errors(options):
    done = run_main("fit", "x.svm", "m.monro", *options)
    assert done.returncode == 1
    assert "--engine ray" in done.stderr
