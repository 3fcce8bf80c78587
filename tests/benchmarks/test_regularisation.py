"""What `python -m benchmarks regularisation` computes from its results."""

import time

import numpy as np
import pytest
from benchmarks.datasets import Data
from benchmarks.parts import replaced
from benchmarks.regularisation import (
    comparison,
    judging,
    l1,
    memory,
    sentences,
    stability,
    table,
    wanted,
    watching,
)
from benchmarks.regularisation.children import in_child
from sklearn.metrics import log_loss


def calibration_error_of_definition(P, codes, bins):
    """Return the sum over bins of share of rows times |accuracy - mean confidence|."""
    total = 0.0
    for b in range(bins):
        rows = [
            i
            for i, p in enumerate(P)
            if b / bins <= max(p) < (b + 1) / bins or (b == bins - 1 and max(p) == 1)
        ]
        if rows:
            accuracy = np.mean([P[i].argmax() == codes[i] for i in rows])
            total += len(rows) / len(P) * abs(accuracy - np.mean([max(P[i]) for i in rows]))
    return total


def test_calibration_error_is_that_of_the_definition():
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.full(4, 0.3), 500)
    P[0] = [1.0, 0.0, 0.0, 0.0]
    # Too little confidence below 0.6, too much above.
    codes = np.where(P.max(axis=1) < 0.6, P.argmax(axis=1), rng.integers(4, size=500))

    expected = calibration_error_of_definition(P, codes, 15)

    assert judging.calibration_error(P, codes) == pytest.approx(expected, rel=1e-12)


def test_probabilities_that_are_right_are_calibrated():
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(5), 50_000)
    codes = (P.cumsum(axis=1) > rng.random((50_000, 1))).argmax(axis=1)

    assert judging.calibration_error(P, codes) < 0.01
    assert judging.calibration_error(P**3 / (P**3).sum(axis=1)[:, None], codes) > 0.1


def test_only_test_rows_of_known_classes_are_judged():
    class Model:
        classes_ = np.array([3, 5, 8])

        def predict_proba(self, X):
            return X

    X = np.random.default_rng(0).dirichlet(np.ones(3), 6)
    y = np.array([3, 5, 4, 8, 3, 9])
    known = np.array([0, 1, 3, 4])

    found = judging.judged(Model(), Data(None, None, X, y))

    assert found["log_loss"] == pytest.approx(log_loss(y[known], X[known], labels=[3, 5, 8]))


def test_a_verdict_counts_and_lists():
    values = {"a": 1.004, "b": 1.0051, "c": None, "d": 0.9, "e": np.nan}

    text = sentences.at_most("Loss at most 1.005", values, 1.005)

    assert (
        text == "Loss at most 1.005: 2 of 4; not b (1.005), e (nan); nothing to compare with on c."
    )


def test_defaults_that_are_ahead_are_listed():
    rows = [
        {"set": "a", "ours": {"loss": 2.0}, "peers": {"P()": {"loss": 1.0}, "Q": {"loss": 0.1}}},
        {"set": "b", "ours": {"loss": 2.0}, "peers": {"P()": {"limit": 5.0}}},
        {"set": "c", "ours": {"loss": 2.0}, "peers": {"P()": {"loss": 2.1}}},
    ]

    assert sentences.defaults_ahead(rows, ("P()",), "loss") == (
        "Peers' defaults that are ahead: P() on a (0.500×)."
    )
    assert sentences.defaults_ahead(rows[1:], ("P()",), "loss").endswith(": none.")


def classifier_row(name, loss, peers):
    ours = {"log_loss": loss, "calibration": 0.02, "seconds": 1.0, "fixed_seconds": 0.5}
    return {"set": name, "rows": 20_000, "ours": ours, "peers": peers}


def peer(loss, held_out, seconds):
    return {"log_loss": loss, "held_out": held_out, "seconds": seconds, "calibration": 0.0}


def test_the_variant_of_a_peer_is_chosen_by_rows_held_out():
    """Not by test rows, on which the other variant is better here."""
    default = {comparison.DEFAULT: {"limit": 600.0}}
    both = {
        "LogisticRegressionCV, lbfgs": peer(0.5, held_out=0.6, seconds=9.0),
        "LogisticRegressionCV, saga": peer(0.4, held_out=0.7, seconds=30.0),
    }
    stopped = {name: {"limit": 600.0} for name in both}
    rows = [classifier_row("a", 0.45, both | default), classifier_row("b", 1, stopped | default)]

    assert comparison.loss_ratios(rows) == {"a": pytest.approx(0.9), "b": None}
    assert comparison.time_ratios(rows) == {"a": pytest.approx(1 / 9), "b": pytest.approx(1 / 600)}
    assert comparison.loss_and_calibration(rows)[0] == (
        "Test log-loss at most 1.005 times that of LogisticRegressionCV: 1 of 1; "
        "nothing to compare with on b. Below it: 1 of 1."
    )
    lines = comparison.lines(rows)
    assert "0.5000 (lbfgs)" in lines[0]
    assert "not finished in 600 s" in lines[1]
    assert {len(line) for line in lines} == {len(comparison.HEADER) + 1}
    assert "LogisticRegressionCV, saga in 600 s on b" in comparison.stopped_peers(rows)


def test_times_to_the_optimum_are_relative_to_the_fastest_peer():
    def row(name, own, *others):
        peers = [{"learner": f"p{k}", "seconds": seconds} for k, seconds in enumerate(others)]
        return {"set": name, "learners": [{"learner": "monro", "seconds": own}, *peers]}

    rows = [
        row("a", 2.0, 1.0, None),
        row("b", None, 1.0),
        row("c", 1.0, None),
        row("d", None, None),
    ]

    assert l1.relative_times(rows) == {"a": 2.0, "b": np.inf, "c": 0.0, "d": None}


def test_jaccard_of_zero_patterns():
    v, w = np.array([1.0, 0.0, 2.0, 0.0]), np.array([-3.0, 1.0, 0.0, 0.0])

    assert l1.jaccard(v, w) == pytest.approx(1 / 3)
    assert l1.jaccard(0 * v, 0 * w) == 1.0


def test_a_measurement_is_stopped_at_its_limit():
    assert in_child(dict, [("a", 1)], limit=60.0) == {"a": 1}
    assert in_child(time.sleep, 60.0, limit=0.01) == {"limit": 0.01}


def test_a_part_that_is_run_again_replaces_its_rows():
    rows = [{"set": "a", "x": 1}, {"set": "c", "x": 1}]

    rows = replaced(rows, {"set": "b", "x": 2}, ["a", "b", "c"])
    rows = replaced(rows, {"set": "a", "x": 3}, ["a", "b", "c"])

    assert [(row["set"], row["x"]) for row in rows] == [("a", 3), ("b", 2), ("c", 1)]


def test_parts_are_chosen_by_name():
    assert wanted("softmax/MNIST,memory", quick=False) == [
        ("softmax", "MNIST"),
        ("memory", "WikiText-2 two words"),
        ("memory", "WikiText-2 two words by default"),
    ]
    with pytest.raises(SystemExit, match="unknown part 'x'"):
        wanted("x", quick=False)
    with pytest.raises(SystemExit, match="unknown set 'x' of l1"):
        wanted("l1/x", quick=False)
    for part, cell in wanted(None, quick=False):
        assert wanted(f"{part}/{cell}", quick=False) == [(part, cell)]


def test_only_parts_with_results_are_in_the_document():
    seeds = {"rows": 120, "strengths": [0.1, 0.4], "losses": [0.2, 0.201]}
    sizes = {"bytes": 30, "weight_bytes": 10, "data_bytes": 5, "seconds": 8.0}
    fits = {"auto": sizes, "fixed": sizes | {"bytes": 25, "seconds": 2.0}}

    text = table({"parts": {"stability": [{"set": "iris"} | seeds]}})

    assert text.startswith("| over seeds")
    assert "Greatest strength at most 3 times the least: 0 of 1; not iris (4.0)." in text
    assert "Greatest test log-loss at most 1.01 times the least: 1 of 1." in text
    assert "at most 2 times the dense weights, and the rows: 1 of 2; not alpha auto (1.200)." in (
        memory.table([{"set": "words"} | fits])
    )
    assert table({"parts": {}}) == "Not measured yet."
    assert stability.cells(quick=True)


def test_what_watching_costs_is_compared_with_the_bar():
    found = [
        {
            "set": "few",
            "rows": 100,
            "epochs": 4,
            "ratios": {"verbose=1": 1.1, "early_stopping": 1.0},
        },
        {
            "set": "many",
            "rows": 9,
            "epochs": 4,
            "ratios": {"verbose=1": 1.0, "early_stopping": 1.2},
        },
    ]
    text = watching.table(found)
    assert "CPU time with verbose=1 at most 1.1 times that without: 2 of 2." in text
    assert "with early_stopping at most 1.1 times that without: 1 of 2; not many (1.20)." in text
