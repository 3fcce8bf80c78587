"""The five papers redone, each by one command: what they tabulate and plot, beside what they say.

A study is a list of trials, which are plain data; `runner` runs those not run yet and keeps each
result as a line of JSON; `chapter` makes tables and plots of the results there are.
"""

from importlib import import_module

from monro.studies.study import Study

NAMES = ("unbiased-softmax", "augment-reduce", "sparse-averaging", "implicit-sgd", "sgd-qn")


def get(name: str) -> Study:
    """Return the study of that name.

    Examples
    --------
    >>> get("sgd-qn").sets
    ('covtype', 'rcv1', 'conll2000')
    """
    study: Study = import_module(f"monro.studies.{name.replace('-', '_')}").STUDY
    return study
