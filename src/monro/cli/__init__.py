"""The command line. Commands import what they need when they run, so that --help is fast."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

import monro

app = typer.Typer(
    name="monro",
    help="Linear models by stochastic approximation, with nothing to tune.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)
data_app = typer.Typer(
    name="data",
    help="Data sets by name, and stores for data larger than memory.",
    no_args_is_help=True,
)
app.add_typer(data_app)


class Engine(StrEnum):
    """Where models are fitted."""

    local = "local"
    ray = "ray"


class Task(StrEnum):
    """What to fit."""

    binary = "binary"
    regression = "regression"
    softmax = "softmax"
    tag = "tag"


class Precision(StrEnum):
    """The precision of the values in a store."""

    float32 = "float32"
    float64 = "float64"


DataArgument = Annotated[
    str, typer.Argument(metavar="DATA", help="A file, a store, a data set's name, or - (stdin).")
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="The model file.")]
SetName = Annotated[
    str, typer.Argument(metavar="NAME", help="A name that `monro data list` shows.")
]
Target = Annotated[str | None, typer.Option(help="The column of labels, in a CSV or Parquet file.")]
FirstFeature = Annotated[
    int | None,
    typer.Option(min=0, max=1, help="The number of the first feature, in svmlight files."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]


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
    """Accept options before the command."""


@app.command()
def demo(
    seed: int = typer.Option(0, help="Seed of every random choice."),
    jobs: int = typer.Option(1, min=1, help="Threads."),
    keep: Annotated[
        Path | None, typer.Option(help="A folder to write train.svm and test.svm to.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("monro-demo.html"),
) -> None:
    """Fit three models to real data that needs no download, and write a page about them."""
    from monro.cli.demo import run

    run(seed, jobs, keep, out)


@app.command()
def fit(
    data: DataArgument,
    model: Model,
    task: Annotated[Task, typer.Option(help="What to fit.")] = Task.binary,
    loss: Annotated[
        str | None, typer.Option(help="hinge, log, squared, …: the default is the estimator's.")
    ] = None,
    solver: Annotated[
        str | None, typer.Option(help="The solver; the default is recommended.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="Any parameter of the estimator; may be repeated."
        ),
    ] = None,
    template: Annotated[
        str | None, typer.Option(help="A CRF++ template of the features of a token (tag).")
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="Save the progress here: the same command resumes a killed fit."),
    ] = None,
    features: Annotated[
        int | None,
        typer.Option(min=1, help="The number of features, if DATA may lack the last ones."),
    ] = None,
    first_feature: FirstFeature = None,
    target: Target = None,
    first_label: Annotated[
        bool, typer.Option("--first-label", help="If a row has several labels, use the lowest.")
    ] = False,
    soft_labels: Annotated[
        bool, typer.Option("--soft-labels", help="Use all n labels of a row, with weight 1/n each.")
    ] = False,
    classes: Annotated[
        int | None,
        typer.Option(min=2, help="The labels are 0 … N-1, even if some do not occur (softmax)."),
    ] = None,
    jobs: Annotated[int, typer.Option(help="Threads; -1 for all cores.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Seed of every random choice.")] = 0,
    engine: Annotated[
        Engine, typer.Option(help="Where to fit: in this process, or on a Ray cluster.")
    ] = Engine.local,
    address: Annotated[
        str | None,
        typer.Option(help="The cluster, HOST:PORT or auto; by default one is started here."),
    ] = None,
    json: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Fit a model to DATA and save it as MODEL."""
    if address is not None and engine is not Engine.ray:
        raise ValueError("--address: it is for --engine ray")
    given: dict[str, Any] = {"loss": loss, "solver": solver, "template": template}
    parameters = {name: value for name, value in given.items() if value is not None}
    parameters |= {"n_jobs": jobs, "random_state": seed}
    options: dict[str, Any] = {"checkpoint": checkpoint, "as_json": json, "quiet": quiet}
    if task is Task.tag:
        if engine is Engine.ray:
            raise ValueError("--engine ray is for --task binary and softmax")
        others = (loss, features, first_feature, target, classes)
        if first_label or soft_labels or any(option is not None for option in others):
            raise ValueError(
                "--loss, --features, --first-feature, --target, --first-label, --soft-labels and "
                "--classes are not for --task tag"
            )
        from monro.cli.tagging import fit as run_tag

        run_tag(data, model, parameters, set_ or [], **options)
        return
    if template is not None:
        raise ValueError("--template: it is for --task tag")
    options |= {
        "n_features": features,
        "first_feature": first_feature,
        "target": target,
        "first_label": first_label,
    }
    if engine is Engine.ray:
        if task is Task.regression or soft_labels or classes is not None or jobs != 1:
            raise ValueError(
                "--engine ray is for --task binary and softmax, without --soft-labels, --classes "
                "and --jobs (give --set workers=N)"
            )
        from monro.cli.cluster import fit as run_ray

        parameters.pop("n_jobs")
        run_ray(data, model, task.value, parameters, set_ or [], address=address, **options)
        return
    from monro.cli.models import fit as run

    options |= {"soft_labels": soft_labels, "n_classes": classes}
    run(data, model, task.value, parameters, set_ or [], **options)


@app.command()
def predict(
    model: Model,
    data: DataArgument,
    proba: Annotated[bool, typer.Option("--proba", help="Probabilities of all classes.")] = False,
    top_k: Annotated[
        int | None, typer.Option(min=1, help="The K best labels, with probability or score.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write to this file, not to stdout.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object per row.")] = False,
) -> None:
    """Predict a label for each row of DATA, one per line."""
    from monro.cli.models import predict as run

    run(model, data, proba=proba, top_k=top_k, out=out, as_json=json)


@app.command()
def evaluate(
    model: Model,
    data: DataArgument,
    target: Target = None,
    soft_labels: Annotated[
        bool, typer.Option("--soft-labels", help="Use all labels of a row: P@k and nDCG@k.")
    ] = False,
    json: Json = False,
) -> None:
    """Measure how well MODEL predicts the labels of DATA."""
    from monro.cli.models import evaluate as run

    run(model, data, target=target, soft_labels=soft_labels, as_json=json)


@app.command()
def reproduce(
    study: Annotated[
        str,
        typer.Argument(
            metavar="STUDY",
            help="unbiased-softmax, augment-reduce, sparse-averaging, implicit-sgd, sgd-qn, all.",
        ),
    ],
    dataset: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Run on this data set only; may be repeated."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A small version that takes a minute, as a test.")
    ] = False,
    out: Annotated[Path, typer.Option(help="The folder of results.")] = Path("monro-results"),
    jobs: Annotated[
        int,
        typer.Option(min=1, help="Trials at a time; those whose time is compared run alone."),
    ] = 1,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Reproduce the tables and figures of a paper; a killed run resumes if run again."""
    from monro.cli.studies import reproduce as run

    run(study, dataset or [], out, quick=quick, jobs=jobs, quiet=quiet)


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder that reproduce wrote.")],
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
) -> None:
    """Write a page of results with tables and plots, for a browser."""
    from monro.cli.studies import report as run

    run(folder, out)


@app.command(name="compile")
def compile_(
    all_: Annotated[
        bool, typer.Option("--all", help="All solvers, not only the defaults.")
    ] = False,
) -> None:
    """Compile the kernels now, so that later runs do not have to."""
    from monro.cli.warm import run

    run(every=all_)


@data_app.command(name="list")
def list_(json: Json = False) -> None:
    """List the data sets known by name, and where they are."""
    from monro.cli.data import list_sets

    list_sets(as_json=json)


@data_app.command()
def info(name: SetName, json: Json = False) -> None:
    """Describe a data set: size, origin, licence, files, checksums."""
    from monro.cli.data import info as run

    run(name, as_json=json)


@data_app.command()
def fetch(name: SetName) -> None:
    """Download a data set, if necessary, and verify its checksums."""
    from monro.cli.data import fetch as run

    run(name)


@data_app.command()
def convert(
    data: DataArgument,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The folder to create.")],
    dtype: Annotated[
        Precision, typer.Option(help="The precision of the values.")
    ] = Precision.float32,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the shuffle.")] = 0,
    features: Annotated[int | None, typer.Option(min=1, help="The number of features.")] = None,
    first_feature: FirstFeature = None,
    target: Target = None,
    json: Json = False,
) -> None:
    """Convert DATA to a store: shuffled on disk, for training on data larger than memory."""
    from monro.cli.data import convert as run

    run(
        data,
        out,
        dtype=dtype.value,
        seed=seed,
        n_features=features,
        first_feature=first_feature,
        target=target,
        as_json=json,
    )


def main() -> None:
    """Run the command line; on bad input, exit with a one-line error message."""
    from monro.errors import MonroError

    try:
        app()
    except (MonroError, ValueError, OSError, ArithmeticError, MemoryError) as error:
        text = " ".join(str(error).split()) or type(error).__name__
        if isinstance(error, OSError) and error.filename and error.strerror:
            text = f"{error.filename}: {error.strerror.lower()}"
        typer.secho(f"monro: {text}", fg="red", err=True)
        sys.exit(1)
