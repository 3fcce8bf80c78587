"""The file of results: what it keeps, and how it survives interrupted writes."""

import json
import math
import os
import platform
import resource
from contextlib import contextmanager
from importlib.metadata import version

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import monro
from monro.data.registry import data_sets
from monro.errors import DataError
from monro.studies import runner
from monro.studies.journal import Journal, provenance, to_json_types
from monro.studies.study import Outcome, Study, Trial, combine_provenance

TRIALS = [Trial("table 1", "", {"method": f"Größe {k}", "rate": 0.5 * k}) for k in range(3)]


def outcome(k):
    return Outcome(TRIALS[k], {"loss": [1.0 / (k + 1), None], "name": "η0"}, {"seconds": 0.25})


def written(path, count=3):
    journal = Journal(path)
    for k in range(count):
        journal.add(outcome(k))
    return journal


def study(run):
    return Study("made-up", "", "", "", (), lambda quick: TRIALS, run, lambda o: [], lambda o: [])


def test_results_survive(tmp_path):
    path = tmp_path / "deep" / "folder" / "results.jsonl"
    journal = written(path)
    again = Journal(path)

    expected = [outcome(k) for k in range(3)]
    assert journal.of(TRIALS) == again.of(TRIALS) == expected
    assert again.of(TRIALS[::-1]) == expected[::-1]
    assert again.of([Trial("table 2", "", {}), TRIALS[1]]) == expected[1:2]
    assert len(path.read_text(encoding="utf-8").splitlines()) == 3


def test_a_journal_returns_what_a_later_run_will_read(tmp_path):
    """The run that computes a result sees it with the JSON types that later runs read."""
    journal = Journal(tmp_path / "results.jsonl")
    made = {"loss": np.float64(0.5), "curve": np.array([1.0, np.nan]), "pair": (1, math.inf)}
    journal.add(Outcome(TRIALS[0], made, {}))

    assert journal.outcomes[TRIALS[0].key].result == {
        "loss": 0.5,
        "curve": [1.0, None],
        "pair": [1, None],
    }
    assert Journal(journal.path).outcomes == journal.outcomes


def test_a_trial_run_again_replaces_its_result(tmp_path):
    journal = written(tmp_path / "results.jsonl")
    journal.add(outcome(1)._replace(result={"loss": 7}))

    assert [o.result.get("loss") for o in Journal(journal.path).of(TRIALS)][1] == 7


# ------------------------------------------------------------------------------ interrupted writes


def test_an_incomplete_line_loses_its_own_trial_only(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda file: None)  # slow, and called hundreds of times
    path = runner.journal_path(tmp_path, study(None), quick=False)
    written(path)
    whole = path.read_bytes()
    begin = whole.rindex(b"\n", 0, -1) + 1
    for cut in range(begin, len(whole)):
        path.write_bytes(whole[:cut])
        assert Journal(path).of(TRIALS) == [outcome(0), outcome(1)]
        assert path.read_bytes() == whole[:cut]  # reading does not change the file

        ran = []
        again = study(lambda trial, tick, ran=ran: ran.append(trial) or outcome(2).result)
        found = runner.run(again, tmp_path, show=False)
        assert ran == TRIALS[2:]
        assert [o.result for o in found] == [outcome(k).result for k in range(3)]
        assert Journal(path).of(TRIALS) == found
        assert path.read_bytes()[:begin] == whole[:begin]


@contextmanager
def limited_file_size(size):
    """Let no file grow beyond `size` bytes, like a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_ends_the_run_without_damage(tmp_path):
    journal = written(tmp_path / "results.jsonl", 1)
    with limited_file_size(journal.path.stat().st_size + 10), pytest.raises(OSError, match="large"):
        journal.add(outcome(1))

    again = Journal(journal.path)
    assert again.of(TRIALS) == [outcome(0)]
    again.add(outcome(1))
    assert Journal(journal.path).of(TRIALS) == [outcome(0), outcome(1)]


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"[1, 2]",
        b'"text"',
        b'{"trial": {"part": "", "data": "", "settings": {}}, "result": {}}',
        b'{"trial": {"part": ""}, "result": {}, "provenance": {}}',
        b'{"trial": null, "result": {}, "provenance": {}}',
        b"\xff\xfe",
    ],
)
def test_a_bad_line_in_the_middle_is_named(tmp_path, line):
    path = written(tmp_path / "results.jsonl").path
    lines = path.read_bytes().split(b"\n")
    lines[1] = line
    path.write_bytes(b"\n".join(lines))

    with pytest.raises(
        DataError, match=r"results\.jsonl, line 2: this is not a line of results; re"
    ):
        Journal(path)
    assert path.read_bytes().split(b"\n") == lines


# ------------------------------------------------------------------------------------- JSON types

values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(), st.floats()),
    lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(), part, max_size=3),
    max_leaves=8,
)


def numbers(value):
    """Yield the floats in nested lists and dictionaries."""
    if isinstance(value, (list, dict)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from numbers(each)
    elif isinstance(value, float):
        yield value


@given(values)
@settings(deadline=None, derandomize=True)
def test_numbers_that_are_not_finite_become_null(value):
    kept = json.loads(json.dumps(to_json_types(value), allow_nan=False))

    assert list(numbers(kept)) == [x for x in numbers(value) if math.isfinite(x)]
    if len(list(numbers(kept))) == len(list(numbers(value))):
        assert kept == value


# ------------------------------------------------------------------------------------- provenance


def test_provenance_has_versions_machine_seed_and_data():
    found = provenance(Trial("table 1", "rcv1", {"seed": 5}), 1.23456)

    assert found["monro"] == monro.__version__
    assert found["python"] == platform.python_version()
    for name in ("numpy", "scipy", "numba", "scikit-learn"):
        assert found[name] == version(name)
    assert found["processor"]
    assert found["cores"] >= 1
    assert found["seed"] == 5
    assert found["seconds"] == 1.235
    assert found["data"] == {f.path: f.sha256 for f in data_sets()["rcv1"].parts.values()}
    assert len(found["data"]) == 2
    assert all(len(digest) == 64 for digest in found["data"].values())
    assert json.loads(json.dumps(found)) == found


def test_synthetic_data_has_no_checksum_and_the_default_seed_is_0():
    found = provenance(Trial("cost", "", {}), 0.0)
    assert found["data"] == {}
    assert found["seed"] == 0


def test_combined_provenance_has_the_first_and_the_last_time():
    times = ["2024-02-01", "2024-01-01", "2024-03-01"]
    made = [outcome(k)._replace(provenance={"time": t}) for k, t in enumerate(times)]
    assert combine_provenance(made)["time"] == "2024-01-01 to 2024-03-01"
    assert combine_provenance(made[:1])["time"] == "2024-02-01"
