"""monro fit --engine ray."""

import time
from pathlib import Path
from typing import Any

from monro.cli.common import check_model, make_estimator, run_fit, save_model, say
from monro.cli.models import check_labels, read_data
from monro.cli.strength import chosen_strength, print_fit
from monro.data.files import is_stdin
from monro.data.registry import resolve, target_of
from monro.progress import pipe_safe_console
from monro.ray.datasets import dataset_of, read_parquet
from monro.ray.folder_checkpoint import remove_checkpoint
from monro.ray.linear import RayLinearClassifier
from monro.ray.softmax import RaySoftmaxClassifier
from monro.ray.worker_pool import connect

_ESTIMATORS: dict[str, Any] = {"binary": RayLinearClassifier, "softmax": RaySoftmaxClassifier}
_BLOCKS = 16  # number of blocks in which this process sends its rows to the cluster


def fit(
    data_name: str,
    model: Path,
    task: str,
    parameters: dict[str, Any],
    settings: list[str],
    *,
    address: str | None,
    checkpoint: Path | None,
    n_features: int | None,
    first_feature: int | None,
    target: str | None,
    first_label: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Fit on a cluster, save the model, and print a summary.

    Nodes read Parquet files themselves; all other files are read by this process.
    """
    console = pipe_safe_console(stderr=True, quiet=quiet)
    estimator = make_estimator(_ESTIMATORS[task], parameters, settings, quiet)
    check_model(model, data_name, checkpoint)
    begin = time.perf_counter()
    nodes = connect(address)
    target = target or target_of(data_name)
    path = None if is_stdin(data_name) else Path(resolve(data_name))
    layout = None
    if path is not None and _is_parquet(path):
        dataset, label = read_parquet(path), target or "label"
    else:
        data = read_data(
            console,
            data_name,
            n_features=n_features,
            first_feature=first_feature,
            target=target,
        )
        check_labels(data, task, data_name, first_label)
        assert data.y is not None
        dataset, label, layout = dataset_of(data.X, data.y, _BLOCKS), "label", data.layout
        n_features = data.X.shape[1]
    say(console, f"{data_name}: on {nodes} {'node' if nodes == 1 else 'nodes'} of Ray")
    run_fit(
        console,
        estimator,
        checkpoint,
        lambda: estimator.fit(dataset, label, n_features=n_features, checkpoint=checkpoint),
    )
    local = estimator.to_local()
    if layout is not None:
        local._layout = layout._asdict()
    if checkpoint is not None and checkpoint.is_dir():  # the checkpoint of a softmax is a folder
        save_model(local, model, None)
        remove_checkpoint(checkpoint)
    else:
        save_model(local, model, checkpoint)
    seconds = time.perf_counter() - begin
    result = {
        "model": str(model),
        "features": local.n_features_in_,
        "classes": local.classes_.tolist(),
        **chosen_strength(local),
        "epochs": local.n_iter_,
        "workers_lost": estimator.losses_,
        "seconds": seconds,
        "mean_loss": local.history_[-1]["loss"],
    }
    print_fit(local, result, as_json)


def _is_parquet(path: Path) -> bool:
    return path.suffix == ".parquet" or (path.is_dir() and any(path.glob("*.parquet")))
