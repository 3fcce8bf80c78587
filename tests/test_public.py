"""The public API: names, signatures, documentation."""

import inspect
import re
import subprocess
import sys

import pytest
from sklearn.base import BaseEstimator

import monro
from monro import LinearClassifier
from tests import api

ESTIMATORS = [name for name in monro.__all__ if name != "load"]
ON_RAY = "monro.ray."
NAMES = api.public_names()
HERE = [name for name in NAMES if not name.startswith(ON_RAY)]


def test_the_public_names_are_these():
    expected = ["CRFTagger", "ChoiceModel", "LinearClassifier", "LinearRegressor"]
    assert monro.__all__ == [*expected, "SoftmaxClassifier", "load"]
    assert set(monro.__all__) <= set(dir(monro))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="LinearClasifier"):
        _ = monro.LinearClasifier


# ---------------------------------------------------------------------------------------- snapshot
# After an intended change of the API, `python -m tests.api` updates the snapshot.


def test_the_api_is_that_of_the_snapshot():
    kept = [x for x in api.SNAPSHOT.read_text().splitlines() if not x.startswith(ON_RAY)]
    assert [api.described(name) for name in HERE] == kept


def test_the_api_on_ray_is_that_of_the_snapshot():
    pytest.importorskip("ray", reason="pip install '.[ray]'")
    assert api.snapshot() == api.SNAPSHOT.read_text()


@pytest.mark.parametrize("name", ESTIMATORS)
def test_parameters_are_named_and_kept_as_given(name):
    kind = getattr(monro, name)
    parameters = inspect.signature(kind).parameters
    assert all(p.kind is p.KEYWORD_ONLY for p in parameters.values())
    assert kind().get_params() == {key: p.default for key, p in parameters.items()}


# ----------------------------------------------------------------------------------- documentation


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_public_method_is_in_the_reference(name):
    kind = getattr(monro, name)
    for member, value in inspect.getmembers(kind):
        function = value.fget if isinstance(value, property) else value
        if not callable(function) or member.startswith("_") or hasattr(BaseEstimator, member):
            continue
        if function.__module__.startswith("monro."):
            assert f"monro.{name}.{member}" in NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_has_an_example(name):
    """Its own, or one of its class; `test_doctests` and tests/ray run them."""
    if name.startswith(ON_RAY):
        pytest.importorskip("ray", reason="pip install '.[ray]'")
    text = inspect.getdoc(api.resolve(name))
    assert text
    owner, _, member = name.rpartition(".")
    relatives = []
    if inspect.isclass(api.resolve(owner)):
        relatives = [owner, *(other for other in NAMES if other.startswith(f"{owner}."))]
    examples = re.findall(
        r"(?:>>>|\.\.\.) .*", "\n".join(api.resolve(each).__doc__ for each in relatives)
    )
    assert ">>> " in text or re.search(rf"\.{member}\b", "\n".join(examples))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_parameter_is_described(name):
    kind = getattr(monro, name)
    described = inspect.getdoc(kind)
    if name == "LinearRegressor":  # describes only what differs
        described += inspect.getdoc(LinearClassifier)
    headings = re.findall(r"\n(\w+(?:, \w+)*) : ", described)  # "delta, radius : float"
    assert set(kind().get_params()) <= set(", ".join(headings).split(", "))


# ----------------------------------------------------------------------------------------- imports


def test_importing_the_package_loads_nothing_heavy():
    script = """
import sys, monro
slow = {"numba", "scipy", "sklearn", "numpy"} & set(sys.modules)
sys.exit(f"loaded {slow}" if slow else 0)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
