"""monro fit, predict, evaluate."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from sklearn import metrics

import monro
from monro._jit import announce_compilation
from monro.cli.common import (
    COMPILING,
    check_model,
    check_output,
    format_value,
    make_estimator,
    output,
    print_result,
    run_fit,
    save_model,
    say,
)
from monro.cli.strength import chosen_strength, print_fit
from monro.data.parquet import is_large
from monro.data.read import Data, Layout, is_table, read
from monro.data.registry import resolve, target_of
from monro.data.sources import open_source
from monro.errors import DataError
from monro.linear.classifier import LinearClassifier
from monro.linear.parameters import check_linear_parameters
from monro.linear.regressor import LinearRegressor
from monro.progress import pipe_safe_console
from monro.rows import Array
from monro.softmax.classifier import SoftmaxClassifier
from monro.softmax.parameters import check_softmax_parameters

_ESTIMATORS: dict[str, Any] = {
    "binary": LinearClassifier,
    "regression": LinearRegressor,
    "softmax": SoftmaxClassifier,
}
_REPORTED = ("objective", "log_loss", "validation_loss")


# ------------------------------------------------------------------------------------------- input


def read_data(console: Console, name: str, **options: Any) -> Data:
    """Read a file or a named data set; announce if the reader has to be compiled first."""
    path = resolve(name)
    with announce_compilation(lambda: say(console, COMPILING)):
        return read(path, **options)


def _read_training_data(console: Console, name: str, **options: Any) -> Data:
    """Read a file; large Parquet is not read into memory but converted to a temporary store."""
    path = resolve(name)
    if not is_large(path):
        return read_data(console, name, **options)
    if options["n_features"] is not None:
        raise DataError("a table's columns are its features", name, cure="give no number")
    if options["all_labels"]:
        raise DataError("a table has one label a row", name, cure="leave out --soft-labels")
    source = open_source(path, options["target"], None, weighted=False)
    assert source is not None
    X, labels, layout = source
    notes = ("written as a temporary store, shuffled",)
    return Data(X, labels, layout, "Parquet", notes)  # type: ignore[arg-type]


def _read_for_model(
    estimator: Any, model: Path, console: Console, data_name: str, **options: Any
) -> Data:
    """Read data with the layout of a model's training data."""
    if isinstance(estimator, monro.ChoiceModel):
        raise ValueError(
            f"{model}: this is a ChoiceModel, which reads data frames: use it in Python"
        )
    layout = getattr(estimator, "_layout", None)
    if layout is not None:
        names = tuple(layout["names"]) if layout["names"] else None
        layout = Layout(**layout | {"names": names})
        return read_data(console, data_name, layout=layout, **options)
    # The model was saved from Python, without a layout.
    path = resolve(data_name)
    if is_table(path) or Path(path).is_dir():
        names = getattr(estimator, "feature_names_in_", None)
        named = Layout(estimator.n_features_in_, 0, None if names is None else tuple(names))
        return read_data(console, data_name, layout=named, **options)
    data = read_data(console, data_name, n_features=estimator.n_features_in_, **options)
    for note in data.notes:
        say(console, f"{data_name}: {note}")
    return data


# -------------------------------------------------------------------------------------------- fit


def check_labels(data: Data, task: str, name: str, decided: bool) -> None:
    """Raise if the labels do not suit the task.

    `decided` says that the user chose which of several labels of a row to use.
    """
    if task == "softmax" and data.several_labels and not decided:
        raise DataError(
            f"{data.several_labels:,} rows have several labels",
            name,
            cure="give --first-label to take the lowest of each, or --soft-labels to take all",
        )
    if task != "regression" and data.y.dtype.kind == "f":  # type: ignore[union-attr]
        raise DataError(
            "the labels are not whole numbers", name, cure="use --task regression, or round them"
        )
    if task == "regression" and data.y.dtype.kind not in "iuf":  # type: ignore[union-attr]
        raise DataError("the labels are no numbers", name, cure="use --task binary or softmax")


def _check_parameters(estimator: Any) -> None:
    if isinstance(estimator, SoftmaxClassifier):
        check_softmax_parameters(estimator)
    else:
        check_linear_parameters(estimator, estimator._losses)


def fit(
    data_name: str,
    model: Path,
    task: str,
    parameters: dict[str, Any],
    settings: list[str],
    *,
    checkpoint: Path | None,
    n_features: int | None,
    first_feature: int | None,
    target: str | None,
    first_label: bool,
    soft_labels: bool,
    n_classes: int | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Fit, save the model, and print the result."""
    if task != "softmax" and (first_label or soft_labels or n_classes is not None):
        raise ValueError("--first-label, --soft-labels and --classes are for --task softmax")
    if first_label and soft_labels:
        raise ValueError("--first-label and --soft-labels: give one of them")
    if task == "softmax" and "loss" in parameters:
        raise ValueError("--loss: --task softmax has one loss, the negative log-likelihood")
    if n_classes is not None:
        parameters["classes"] = np.arange(n_classes)
    console = pipe_safe_console(stderr=True, quiet=quiet)
    estimator = make_estimator(_ESTIMATORS[task], parameters, settings, quiet)
    _check_parameters(estimator)
    check_model(model, data_name, checkpoint)

    begin = time.perf_counter()
    target = target or target_of(data_name)
    data = _read_training_data(
        console,
        data_name,
        n_features=n_features,
        first_feature=first_feature,
        target=target,
        all_labels=soft_labels,
    )
    check_labels(data, task, data_name, first_label or soft_labels)
    seconds = time.perf_counter() - begin
    rows, width = data.X.shape
    say(
        console,
        f"{data_name}: {data.format}, {rows:,} rows × {width:,} features in {seconds:.2g} s",
    )
    for note in data.notes:
        say(console, f"{data_name}: {note}")

    begin = time.perf_counter()
    try:
        y: Any = data.y
        if soft_labels:
            y, estimator.classes = data.indicator(estimator.classes)
        run_fit(
            console, estimator, checkpoint, lambda: estimator.fit(data.X, y, checkpoint=checkpoint)
        )
    except ValueError as error:
        if str(error).startswith(("y ", "y:", "X ", "X:")):  # name the data
            raise DataError(str(error), data_name) from None
        raise
    seconds = time.perf_counter() - begin
    estimator._layout = data.layout._asdict()
    save_model(estimator, model, checkpoint)
    kept = _kept_epoch(estimator)
    result = {
        "model": str(model),
        "rows": rows,
        "features": width,
        **({"classes": estimator.classes_.tolist()} if task != "regression" else {}),
        **({"loss": estimator.loss} if task != "softmax" else {}),
        "solver": getattr(estimator, "solver_", estimator.solver),
        **({"learning_rate": estimator.learning_rate_} if estimator.learning_rate_ else {}),
        **chosen_strength(estimator),
        "epochs": estimator.n_iter_,
        **({"kept_epoch": kept["epoch"]} if "validation_loss" in kept else {}),
        "seconds": seconds,
        **({"mean_loss": kept["loss"]} if task != "softmax" else {}),
        **{name: kept[name] for name in _REPORTED if name in kept},
    }
    print_fit(estimator, result, as_json)


def _kept_epoch(estimator: Any) -> dict[str, Any]:
    """Return the record of the epoch whose weights were kept: the one of lowest validation loss.

    That loss is replaced by the exact one, of all rows held out.
    """
    history: list[dict[str, Any]] = estimator.history_
    validated = [record for record in history if "validation_loss" in record]
    if not validated:
        return history[-1]
    best = min(validated, key=lambda record: record["validation_loss"])
    return best | {"validation_loss": history[-1]["held_out_loss"]}


# ---------------------------------------------------------------------------------------- predict


def _probabilities(estimator: Any, X: Any, model: Path) -> Array:
    if not hasattr(estimator, "predict_proba"):
        raise ValueError(
            f"{model}: probabilities need a classifier fitted with --loss log or alpha=auto"
        )
    proba: Array = estimator.predict_proba(X)
    return proba


def _class_scores(estimator: Any, X: Any) -> Array:
    """Return a score for each class: its probability if the model has probabilities."""
    if hasattr(estimator, "predict_proba"):
        return np.asarray(estimator.predict_proba(X))
    scores = estimator.decision_function(X)
    return np.column_stack([-scores, scores]) if scores.ndim == 1 else scores


def _top_k_labels(estimator: Any, X: Any, k: int) -> tuple[Array, Array]:
    """Return the k best labels of each row, and their probabilities or scores."""
    if hasattr(estimator, "predict_top_k"):
        labels, log_proba = estimator.predict_top_k(X, k)
        return labels, np.exp(log_proba)
    scores = _class_scores(estimator, X)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return estimator.classes_[order], np.take_along_axis(scores, order, axis=1)


def _cell(value: Any) -> str:
    return repr(value) if isinstance(value, float) else str(value)


def predict(
    model: Path,
    data_name: str,
    *,
    proba: bool,
    top_k: int | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Write predictions, one row per line."""
    if proba and top_k is not None:
        raise ValueError("--proba and --top-k: give one of them")
    if out is not None:
        check_output(out, model, data_name)
    console = pipe_safe_console(stderr=True)
    estimator = monro.load(model)
    if isinstance(estimator, monro.CRFTagger):
        from monro.cli.tagging import predict as tag

        with announce_compilation(lambda: say(console, COMPILING)):
            tag(estimator, data_name, proba=proba, top_k=top_k, out=out, as_json=as_json)
        return
    data = _read_for_model(estimator, model, console, data_name, labelled=False)
    X = data.X
    classes = getattr(estimator, "classes_", None)
    if top_k is not None and classes is None:
        raise ValueError(f"{model}: --top-k needs a classifier, this is a regressor")

    labels = estimator.predict(X).tolist() if top_k is None else []
    lines: Iterator[str]
    if proba:
        table = _probabilities(estimator, X, model).tolist()
        names = [str(label) for label in classes.tolist()]  # type: ignore[union-attr]
        if as_json:
            lines = (
                json.dumps({"label": label, "proba": dict(zip(names, row, strict=True))})
                for label, row in zip(labels, table, strict=True)
            )
        else:
            lines = (
                "\t".join(
                    [str(label), *(f"{name}:{p:.6g}" for name, p in zip(names, row, strict=True))]
                )
                for label, row in zip(labels, table, strict=True)
            )
    elif top_k is not None:
        labels_of, best_of = _top_k_labels(estimator, X, top_k)
        named, best = labels_of.tolist(), best_of.tolist()
        if as_json:
            lines = (
                json.dumps({"labels": row, "scores": values})
                for row, values in zip(named, best, strict=True)
            )
        else:
            lines = (
                "\t".join(f"{label}:{value:.6g}" for label, value in zip(row, values, strict=True))
                for row, values in zip(named, best, strict=True)
            )
    elif as_json:
        key = "value" if classes is None else "label"
        lines = (json.dumps({key: label}) for label in labels)
    else:
        lines = (_cell(label) for label in labels)
    with output(out) as file:
        file.writelines(f"{line}\n" for line in lines)


# --------------------------------------------------------------------------------------- evaluate


def _check_labels_known(data: Data, classes: Array, name: str) -> None:
    """Raise if a row has a label that the model does not know."""
    rows, labels = data.pairs or (np.arange(data.X.shape[0]), np.asarray(data.y))
    unknown = np.flatnonzero(~np.isin(labels, classes))
    if unknown.size:
        row, label = rows[unknown[0]] + 1, labels[unknown[0]]
        raise DataError(
            f"row {row} has the label {label}, the model knows {format_value(classes.tolist())}",
            name,
            cure="leave out rows of other labels, or declare them all when you fit",
        )


def _classifier_metrics(estimator: Any, data: Data, name: str) -> dict[str, float]:
    X, y, classes = data.X, np.asarray(data.y), estimator.classes_
    _check_labels_known(data, classes, name)
    if hasattr(estimator, "evaluate"):
        targets = y if data.pairs is None else data.indicator(classes)[0]
        measures: dict[str, float] = estimator.evaluate(X, targets)
        return measures
    predicted = estimator.predict(X)
    result = {"error": float(np.mean(predicted != y)), "accuracy": float(np.mean(predicted == y))}
    if classes.size == 2:
        positive = classes[1]
        precision, recall, f1, _ = metrics.precision_recall_fscore_support(
            y, predicted, labels=[positive], average=None, zero_division=0.0
        )
        result |= {"precision": precision[0], "recall": recall[0], "f1": f1[0]}
        if np.unique(y).size == 2:
            result["auc"] = metrics.roc_auc_score(y == positive, estimator.decision_function(X))
    else:
        result["macro_f1"] = metrics.f1_score(
            y, predicted, labels=classes, average="macro", zero_division=0.0
        )
    if hasattr(estimator, "predict_log_proba"):
        codes = np.searchsorted(classes, y)
        result["log_loss"] = -estimator.predict_log_proba(X)[np.arange(y.size), codes].mean()
    return {key: float(value) for key, value in result.items()}


def _regressor_metrics(estimator: Any, data: Data, name: str) -> dict[str, float]:
    X, y = data.X, np.asarray(data.y)
    if y.dtype.kind not in "iuf":
        raise DataError("the labels are no numbers, the model predicts numbers", name)
    predicted = estimator.predict(X)
    result = {
        "rmse": float(np.sqrt(np.mean((predicted - y) ** 2))),
        "mae": float(np.mean(np.abs(predicted - y))),
    }
    if y.size > 1:
        result["r2"] = float(metrics.r2_score(y, predicted))
    return result


def evaluate(
    model: Path, data_name: str, *, target: str | None, soft_labels: bool, as_json: bool
) -> None:
    """Print metrics of the model on labelled data."""
    options = {"target": target} if target else {}
    console = pipe_safe_console(stderr=True)
    estimator = monro.load(model)
    if isinstance(estimator, monro.CRFTagger):
        if target is not None or soft_labels:
            raise ValueError(f"{model}: --target and --soft-labels are not for a tagger")
        from monro.cli.tagging import evaluate as count

        with announce_compilation(lambda: say(console, COMPILING)):
            count(estimator, model, data_name, as_json=as_json)
        return
    data = _read_for_model(estimator, model, console, data_name, all_labels=soft_labels, **options)
    if soft_labels and not isinstance(estimator, SoftmaxClassifier):
        raise ValueError(f"{model}: --soft-labels needs a model of --task softmax")
    assert data.y is not None
    measure = _classifier_metrics if hasattr(estimator, "classes_") else _regressor_metrics
    result = {"rows": data.y.size} | measure(estimator, data, data_name)
    print_result(f"{model} on {data_name}", result, as_json)
