"""Reproductions of five papers: their tables and plots, with the published figures next to ours.

A study is a list of trials, which are plain data. `runner` runs the trials that have no result yet
and appends each result to a file as a line of JSON; `chapter` makes tables and plots of them.
"""

from importlib import import_module

from monro.studies.study import Study

NAMES = ("unbiased-softmax", "augment-reduce", "sparse-averaging", "implicit-sgd", "sgd-qn")


def get(name: str) -> Study:
    """Return the study with the given name.

    Examples
    --------
    >>> get("sgd-qn").sets
    ('covtype', 'rcv1', 'conll2000')
    """
    study: Study = import_module(f"monro.studies.{name.replace('-', '_')}").STUDY
    return study
