"""
MLflow
======

A callback that logs every fit as an MLflow run: its parameters, the numbers of each epoch, and the
model file. View them with ``mlflow ui --backend-store-uri sqlite:///mlflow.db``.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import mlflow
from sklearn.datasets import load_digits

import monro
from monro import SoftmaxClassifier


class MLflow:
    """Logs a fit to the active run, epoch by epoch."""

    def setup(self, estimator, context):
        mlflow.log_params(estimator.get_params())
        self.logged = 0

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        for record in estimator.history_[self.logged :]:
            numbers = {k: v for k, v in record.items() if isinstance(v, float)}
            mlflow.log_metrics(numbers, step=record["epoch"])
        self.logged = len(estimator.history_)

    def teardown(self, estimator, context):
        pass


# %%
# Three ridges, three runs. The model file, which contains no pickle, is stored with each.

folder = Path(tempfile.mkdtemp())
mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
experiment = mlflow.create_experiment("digits", artifact_location=(folder / "files").as_uri())
X, y = load_digits(return_X_y=True)
X = X / 16

for alpha in (1e-4, 1e-3, 1e-2):
    with mlflow.start_run(experiment_id=experiment, run_name=f"alpha={alpha:g}"):
        model = SoftmaxClassifier(alpha=alpha, early_stopping=True, random_state=0)
        model.set_callbacks(MLflow()).fit(X, y)
        model.set_callbacks()
        model.save(folder / "model.monro")
        mlflow.log_artifact(str(folder / "model.monro"))

# %%
# All of it can be queried:

client = mlflow.MlflowClient()
for run in client.search_runs([experiment], order_by=["attributes.start_time"]):
    history = client.get_metric_history(run.info.run_id, "validation_loss")
    plt.semilogy([m.step for m in history], [m.value for m in history], label=run.info.run_name)
    kept = mlflow.artifacts.download_artifacts(run_id=run.info.run_id, artifact_path="model.monro")
    assert monro.load(kept).alpha == float(run.data.params["alpha"])
plt.xlabel("epoch")
plt.ylabel("validation loss")
plt.legend()
plt.show()
