"""The command line. Commands import what they need when they run: --help stays fast."""

import sys

import typer

import monro

app = typer.Typer(
    name="monro",
    help="Linear models by stochastic approximation, with no learning rate to tune.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"monro {monro.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version and exit."
    ),
) -> None:
    """Take the options that stand before the command."""


@app.command()
def demo(
    seed: int = typer.Option(0, help="Seed of every random choice."),
    jobs: int = typer.Option(1, min=1, help="Threads."),
) -> None:
    """Train and evaluate on real data that needs no download."""
    from monro.cli.demo import run

    run(seed, jobs)


def main() -> None:
    """Run the command line; end with one clear line where the input is at fault."""
    try:
        app()
    except (ValueError, OSError, ArithmeticError) as error:
        typer.secho(f"monro: {error}", fg="red", err=True)
        sys.exit(1)
