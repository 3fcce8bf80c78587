"""Weights of observed pairs only, `SoftmaxClassifier(weights="observed")`."""

from benchmarks.parts import Parts

_ABOUT = {
    "quality": "test log-loss beside dense weights",
    "extreme": "many labels a row, beside peers",
    "language": "the next word from the last one to four",
    "lists": "the cost of a step by the number of classes",
}
_PARTS = Parts("observed", _ABOUT, quick=tuple(_ABOUT))
run, table = _PARTS.run, _PARTS.table
