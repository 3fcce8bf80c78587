"""Verdicts on the claims of paper 004, on outcomes made by hand."""

import numpy as np

from monro.report.content import Table
from monro.studies import sgd_qn
from monro.studies.finding import MEASURED, NOT_REPRODUCED, REPRODUCED, UNCLEAR
from monro.studies.sgd_qn_findings import CORRECTED, FLAWED, SGD
from monro.studies.sgd_qn_runs import CHANGED, FIX, NAMES
from monro.studies.study import Outcome, Trial

SEEDS = (0, 1, 2)
GAINS = [[1.0] * 10]


def outcome(part, name, result, alone=False, **settings):
    return Outcome(Trial(part, name, settings), result, {"alone": alone})


def dense(version, learner, rate, costs, seeds=SEEDS, gains=GAINS):
    return [
        outcome(
            "dense", "covtype",
            {"epochs": [1.0, 2.0, 3.0], "cost": [c + 0.001 * seed for c in costs],
             "error": [0.3, 0.25, 0.2], "gains": gains},
            version=version, learner=learner, rate=rate, seed=seed,
        )
        for seed in seeds
    ]  # fmt: skip


def verdicts(outcomes, *words):
    """Return the verdicts of the findings whose claims have these words."""
    found = sgd_qn.findings(outcomes)
    return [one.verdict for one in found if all(word in one.claim for word in words)]


def only(outcomes, *words):
    (found,) = [f for f in sgd_qn.findings(outcomes) if all(word in f.claim for word in words)]
    return found


def test_figure_1_compares_best_rates_and_both_ends():
    outcomes = [
        *dense("normalised", SGD, 0.1, [0.9, 0.8, 0.70]),
        *dense("normalised", SGD, 1.0, [0.9, 0.8, 0.60]),
        *dense("normalised", SGD, 9.0, [0.9, 0.8, 0.90]),
        *dense("normalised", FLAWED, 0.1, [0.9, 0.8, 0.703]),
        *dense("normalised", FLAWED, 1.0, [0.9, 0.8, 0.65]),
        *dense("normalised", FLAWED, 9.0, [0.9, 0.8, 0.75]),
    ]
    assert verdicts(outcomes, "Figure 1") == [REPRODUCED] * 3
    better = [*outcomes, *dense("normalised", FLAWED, 2.0, [0.9, 0.8, 0.5])]
    assert verdicts(better, "Figure 1, dense rows")[0] == NOT_REPRODUCED
    mixed = [*outcomes, *dense("normalised", FLAWED, 2.0, [0.9, 0.8, 0.6005])]
    assert verdicts(mixed, "Figure 1, dense rows")[0] == UNCLEAR


def test_figure_5_counts_increases():
    def gains(learner, curve):
        settings = {"version": "deconditioned", "learner": learner, "rate": 2.0}
        return [outcome("gains", "covtype", {"gains": curve}, seed=s, **settings) for s in SEEDS]

    falling = [[4.0] * 10, [3.0] * 10, [2.0] * 10]
    unequal = [[4.0] * 10, [3.0] * 9 + [1.0], [2.0] * 9 + [0.5]]
    jumping = [[4.0] * 10, [9.0] * 10, [2.0] * 10]
    asserted = [*gains(FLAWED, falling), *gains(FIX, jumping), *gains(CORRECTED, unequal)]
    assert verdicts(asserted, "Figure 5") == [REPRODUCED] * 3
    opposite = [*gains(FLAWED, unequal), *gains(FIX, falling), *gains(CORRECTED, jumping)]
    assert verdicts(opposite, "Figure 5") == [NOT_REPRODUCED] * 3


def test_figure_6_counts_epochs_to_the_last_cost_not_to_the_lowest():
    pattern = [[6.0] * 9 + [1.0]]
    outcomes = [
        *dense("deconditioned", SGD, 1.0, [0.8, 0.5, 0.7]),  # its lowest cost is not its last
        *dense("deconditioned", FLAWED, 1.0, [0.9, 0.8, 0.75]),
        *dense("deconditioned", CORRECTED, 1.0, [0.7, 0.68, 0.65], gains=pattern),
    ]
    assert verdicts(outcomes, "deconditioned rows", "ends below") == [REPRODUCED] * 2
    found = only(outcomes, "epochs to the cost that SVMSGD2 ends with")
    assert found.here == "1.0 ± 0.0 and 2.0 ± 0.0"
    assert found.verdict == REPRODUCED
    assert only(outcomes, "smallest gain").here == "6.00 ± 0.00"
    slow = [
        *outcomes[:6],
        *dense("deconditioned", CORRECTED, 1.0, [0.99, 0.98, 0.97]),
    ]
    assert only(slow, "epochs to the cost that SVMSGD2").here == "never and 2.0 ± 0.0"
    assert verdicts(slow, "deconditioned rows", "ends below") == [NOT_REPRODUCED] * 2
    assert verdicts(slow, "smallest gain") == [NOT_REPRODUCED]


def tagging(learner, fb1, seconds, alone=True):
    objective = [200.0 - value for value in fb1]
    curve = {"epochs": [1, 2, 3, 4], "fb1": fb1, "objective": objective, "test_loss": objective}
    return [
        outcome("crf", "conll2000", curve | {"seconds": seconds}, alone and seed == 0,
                learner=learner, rate=0.1, seed=seed)
        for seed in SEEDS
    ]  # fmt: skip


def test_times_of_taggers_are_compared_only_if_they_ran_alone():
    curves = {
        SGD: ([80.0, 85.0, 90.0, 90.0], [2.0, 4.0, 6.0, 8.0]),
        FLAWED: ([80.0, 90.0, 90.0, 90.0], [3.0, 6.0, 9.0, 12.0]),
        CORRECTED: ([90.0, 90.0, 91.0, 91.0], [2.5, 5.0, 7.5, 10.0]),
    }
    outcomes = [o for name, curve in curves.items() for o in tagging(name, *curve)]
    assert only(outcomes, "Figure 8", "seconds", "and of SVMSGD2").here == "2.50 s and 6.00 s"
    assert verdicts(outcomes, "Figure 8", "seconds") == [REPRODUCED] * 2
    assert verdicts(outcomes, "Figure 3") == [REPRODUCED, REPRODUCED]
    busy = [o for name, curve in curves.items() for o in tagging(name, *curve, alone=False)]
    assert verdicts(busy, "seconds") == []
    assert only(busy, "Figure 3", "epochs").verdict == REPRODUCED
    seconds = [
        item
        for section in sgd_qn.sections(busy)
        for item in section.items
        if isinstance(item, Table) and "Seconds" in item.title
    ]
    assert {cell for row in seconds[0].rows for cell in row[1:]} == {"–"}


def test_readings_of_figure_4_are_measured_at_their_best_rates():
    settings = {"version": "RCV1", "loss": "hinge", "rates": [1.0, 2.0]}
    costs = {
        CORRECTED: [0.3, 0.2],
        CHANGED: [0.25, None],
    }
    outcomes = [
        outcome(
            "losses", "rcv1", {"cost": cost, "error": cost}, learner=name, seed=seed, **settings
        )
        for name, cost in costs.items()
        for seed in SEEDS
    ]
    found = only(outcomes, "every measurement counts")
    assert found.verdict == MEASURED
    assert found.here == "0.20000 ± 0.00000 and 0.25000 ± 0.00000"


def test_every_compared_trial_has_three_seeds_and_taggers_are_timed():
    trials = sgd_qn.trials(False)
    assert all(
        {other.settings["seed"] for other in trials if _but_seed(other) == _but_seed(trial)}
        == set(SEEDS)
        for trial in trials[:: len(trials) // 20]
    )
    timed = [trial for trial in trials if sgd_qn.STUDY.timed(trial)]
    assert {trial.settings["learner"] for trial in timed} == set(NAMES.values())
    assert {trial.part for trial in timed} == {"crf"}


def _but_seed(trial):
    return trial._replace(settings=trial.settings | {"seed": None})


def test_gains_are_compared_where_the_tenth_is_large():
    gains = np.ones((1, 10))
    gains[0, 9] = 0.25
    outcomes = dense("deconditioned", CORRECTED, 1.0, [0.5, 0.4, 0.3], gains=gains.tolist())
    outcomes += dense("deconditioned", SGD, 1.0, [0.9, 0.8, 0.7], gains=[])
    outcomes += dense("deconditioned", FLAWED, 1.0, [0.9, 0.8, 0.7])
    table = sgd_qn.sections(outcomes)[1].items[0]
    assert [row[-1] for row in table.rows] == ["–", "1.00 ± 0.00", "4.00 ± 0.00"]
