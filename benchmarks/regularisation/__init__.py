"""Nothing to tune: defaults that choose the strength of their penalty, beside peers that search.

Test rows are used to judge the result of a fit and for nothing else: strengths are chosen by rows
held out of the training rows, by monro as by its peers, and of several variants of a peer the one
with the least loss held out is compared with.
"""

from benchmarks.parts import Parts

_ABOUT = {
    "softmax": "the default softmax on six sets",
    "linear": "the default linear classifier with log loss",
    "regression": "the default regression",
    "l1": "time to 1 % of the optimum with an L1 penalty",
    "crf": "the default tagger on CoNLL-2000",
    "stability": "strengths and losses over seeds",
    "columns": "columns as they come, and scaled",
    "watching": "what early stopping and verbose=1 cost",
    "memory": "memory and time of a default fit with many classes",
}
_PARTS = Parts("regularisation", _ABOUT, quick=("softmax", "l1", "columns"))
run, table, wanted = _PARTS.run, _PARTS.table, _PARTS.wanted
