"""The file of results: what it keeps, and what becomes of it when a write is cut short."""

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
from monro.studies.journal import Journal, plain, provenance
from monro.studies.study import Outcome, Study, Trial, origins

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


def test_what_is_kept_is_what_is_read_later(tmp_path):
    """The run that makes a result shows what all later ones will."""
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


# ------------------------------------------------------------------------------- what cuts it short


def test_a_torn_line_costs_its_own_trial_only(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda file: None)  # hundreds of times, it is slow
    path = runner.journal_path(tmp_path, study(None), quick=False)
    written(path)
    whole = path.read_bytes()
    begin = whole.rindex(b"\n", 0, -1) + 1
    for cut in range(begin, len(whole)):
        path.write_bytes(whole[:cut])
        assert Journal(path).of(TRIALS) == [outcome(0), outcome(1)]
        assert path.read_bytes() == whole[:cut]  # who only reads leaves it

        ran = []
        again = study(lambda trial, tick, ran=ran: ran.append(trial) or outcome(2).result)
        found = runner.run(again, tmp_path, show=False)
        assert ran == TRIALS[2:]
        assert [o.result for o in found] == [outcome(k).result for k in range(3)]
        assert Journal(path).of(TRIALS) == found
        assert path.read_bytes()[:begin] == whole[:begin]


@contextmanager
def room_for(size):
    """Let no file grow larger: what a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_ends_the_run_and_is_no_damage(tmp_path):
    journal = written(tmp_path / "results.jsonl", 1)
    with room_for(journal.path.stat().st_size + 10), pytest.raises(OSError, match="large"):
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

    with pytest.raises(DataError, match=r"results\.jsonl, line 2: this is no line of results; re"):
        Journal(path)
    assert path.read_bytes().split(b"\n") == lines


# ------------------------------------------------------------------------------------ plain values

values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(), st.floats()),
    lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(), part, max_size=3),
    max_leaves=8,
)


def numbers(value):
    """Yield the floats in a nest of lists and dictionaries."""
    if isinstance(value, (list, dict)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from numbers(each)
    elif isinstance(value, float):
        yield value


@given(values)
@settings(deadline=None, derandomize=True)
def test_what_is_no_number_becomes_null_and_all_else_stays(value):
    kept = json.loads(json.dumps(plain(value), allow_nan=False))

    assert list(numbers(kept)) == [x for x in numbers(value) if math.isfinite(x)]
    if len(list(numbers(kept))) == len(list(numbers(value))):
        assert kept == value


# ------------------------------------------------------------------------------------- provenance


def test_provenance_tells_versions_machine_seed_and_data():
    told = provenance(Trial("table 1", "rcv1", {"seed": 5}), 1.23456)

    assert told["monro"] == monro.__version__
    assert told["python"] == platform.python_version()
    for name in ("numpy", "scipy", "numba", "scikit-learn"):
        assert told[name] == version(name)
    assert told["processor"]
    assert told["cores"] >= 1
    assert told["seed"] == 5
    assert told["seconds"] == 1.235
    assert told["data"] == {f.path: f.sha256 for f in data_sets()["rcv1"].parts.values()}
    assert len(told["data"]) == 2
    assert all(len(digest) == 64 for digest in told["data"].values())
    assert json.loads(json.dumps(told)) == told


def test_made_data_has_no_checksum_and_the_seed_is_0_unless_said():
    told = provenance(Trial("cost", "", {}), 0.0)
    assert told["data"] == {}
    assert told["seed"] == 0


def test_origins_have_the_first_and_the_last_time():
    times = ["2024-02-01", "2024-01-01", "2024-03-01"]
    made = [outcome(k)._replace(provenance={"time": t}) for k, t in enumerate(times)]
    assert origins(made)["time"] == "2024-01-01 to 2024-03-01"
    assert origins(made[:1])["time"] == "2024-02-01"
