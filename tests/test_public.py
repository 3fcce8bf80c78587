"""The public surface: names, signatures, documentation."""

import doctest
import inspect
import re
import subprocess
import sys

import pytest

import monro
from monro import ChoiceModel, LinearClassifier, LinearRegressor, SoftmaxClassifier

SHARED = {
    "solver": "auto",
    "schedule": "bottou",
    "alpha": 1e-5,
    "learning_rate": "auto",
    "decay": 1.0,
    "max_epochs": 10,
    "tol": None,
    "shuffle": True,
    "fit_intercept": True,
    "class_weight": None,
    "early_stopping": False,
    "validation_fraction": 0.1,
    "warm_start": False,
    "n_jobs": None,
    "random_state": None,
    "verbose": 0,
}
SIGNATURES = {
    "CRFTagger": {
        "template": None,
        "solver": "asgd",
        "c": 1.0,
        "cutoff": 1,
        "hash_bits": None,
        "constraints": None,
        "learning_rate": "auto",
        "max_epochs": 10,
        "tol": None,
        "shuffle": True,
        "warm_start": False,
        "n_jobs": None,
        "random_state": None,
        "verbose": 0,
    },
    "ChoiceModel": {
        "link": "softmax",
        "situation": "situation",
        "alternative": "alternative",
        "chosen": "chosen",
        "attributes": None,
        "constants": True,
        "alpha": 0.0,
        "solver": "auto",
        "situations_per_step": 500,
        "alternatives_per_step": 20,
        "learning_rate": 0.02,
        "max_epochs": 50,
        "random_state": None,
    },
    "LinearClassifier": {"loss": "hinge"} | SHARED,
    "LinearRegressor": {"loss": "squared", "delta": 1.35}
    | {name: value for name, value in SHARED.items() if name != "class_weight"},
    "SoftmaxClassifier": {
        "solver": "implicit",
        "link": "softmax",
        "formulation": "auto",
        "init": "auto",
        "sampling": "auto",
        "examples_per_step": None,
        "classes_per_step": None,
        "alpha": 0.0,
        "learning_rate": "auto",
        "epoch_decay": None,
        "max_epochs": 50,
        "tol": None,
        "delta": 1.0,
        "radius": None,
        "classes": None,
        "class_weight": None,
        "posterior": None,
        "fit_intercept": True,
        "dtype": "float32",
        "shuffle": True,
        "early_stopping": False,
        "validation_fraction": 0.1,
        "warm_start": False,
        "n_jobs": None,
        "random_state": None,
        "verbose": 0,
    },
}


def test_the_public_names_are_these():
    assert monro.__all__ == [*SIGNATURES, "load"]
    assert set(monro.__all__) <= set(dir(monro))


@pytest.mark.parametrize("name", monro.__all__)
def test_every_public_name_is_there(name):
    assert getattr(monro, name).__name__ == name


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="LinearClasifier"):
        _ = monro.LinearClasifier


@pytest.mark.parametrize("name", SIGNATURES)
def test_parameters_and_defaults(name):
    parameters = inspect.signature(getattr(monro, name)).parameters
    assert {key: p.default for key, p in parameters.items()} == SIGNATURES[name]
    assert list(parameters) == list(SIGNATURES[name])
    assert all(p.kind is p.KEYWORD_ONLY for p in parameters.values())
    assert getattr(monro, name)().get_params() == SIGNATURES[name]


@pytest.mark.parametrize("name", monro.__all__)
def test_the_examples_of_the_documentation_run(name):
    documented = getattr(monro, name)
    assert "Examples\n" in documented.__doc__
    tests = doctest.DocTestFinder(recurse=False).find(documented, name)
    runner = doctest.DocTestRunner(verbose=False)
    results = [runner.run(test) for test in tests]
    assert sum(result.attempted for result in results) > 0
    assert sum(result.failed for result in results) == 0


@pytest.mark.parametrize(
    "kind", [ChoiceModel, LinearClassifier, LinearRegressor, SoftmaxClassifier]
)
def test_every_parameter_and_method_is_documented(kind):
    described = kind.__doc__
    if kind is LinearRegressor:  # which says what differs
        described += LinearClassifier.__doc__
    headings = re.findall(r"\n    (\w+(?:, \w+)*) : ", described)  # "delta, radius : float"
    assert set(SIGNATURES[kind.__name__]) <= set(", ".join(headings).split(", "))
    for name, method in inspect.getmembers(kind, callable):
        if not name.startswith("_"):
            assert inspect.getdoc(method), name


@pytest.mark.parametrize(
    ("kind", "methods"),
    [
        (
            LinearClassifier,
            {"fit", "partial_fit", "predict", "decision_function", "score", "save"},
        ),
        (LinearRegressor, {"fit", "partial_fit", "predict", "score", "save", "set_callbacks"}),
        (
            SoftmaxClassifier,
            {
                "fit",
                "partial_fit",
                "predict",
                "predict_proba",
                "predict_log_proba",
                "predict_top_k",
                "decision_function",
                "log_loss",
                "bound",
                "summary",
                "evaluate",
                "score",
                "sparsify",
                "densify",
                "save",
                "set_callbacks",
            },
        ),
    ],
)
def test_methods(kind, methods):
    assert methods <= set(dir(kind()))
    assert hasattr(LinearClassifier(loss="log"), "predict_proba")
    assert hasattr(LinearClassifier(loss="log"), "predict_log_proba")


def test_importing_the_package_loads_nothing_heavy():
    script = """
import sys, monro
slow = {"numba", "scipy", "sklearn", "numpy"} & set(sys.modules)
sys.exit(f"loaded {slow}" if slow else 0)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
