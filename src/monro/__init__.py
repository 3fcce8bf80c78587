"""monro: linear models by stochastic approximation, with nothing to tune."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from monro.choice.model import ChoiceModel
    from monro.crf.tagger import CRFTagger
    from monro.linear.classifier import LinearClassifier
    from monro.linear.regressor import LinearRegressor
    from monro.saving.estimator import load
    from monro.softmax.classifier import SoftmaxClassifier

__all__ = [
    "CRFTagger",
    "ChoiceModel",
    "LinearClassifier",
    "LinearRegressor",
    "SoftmaxClassifier",
    "load",
]
__version__ = "0.1.0"

_HOMES = {
    "CRFTagger": "monro.crf.tagger",
    "ChoiceModel": "monro.choice.model",
    "LinearClassifier": "monro.linear.classifier",
    "LinearRegressor": "monro.linear.regressor",
    "SoftmaxClassifier": "monro.softmax.classifier",
    "load": "monro.saving.estimator",
}


def __getattr__(name: str) -> Any:
    # Loaded on first use: the command line's --help must not wait for Numba and scikit-learn.
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'monro' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
