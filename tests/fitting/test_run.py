"""The part that all fits share: weights, seeds, the hold-out, history and stopping."""

from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp

from monro.fitting.epochs import Stopper, train, train_batch
from monro.fitting.run import LabelledRows, Run
from monro.fitting.trainer import Trainer
from monro.fitting.watching import watched_rows
from monro.saving.states import copy_of


class Context:
    def subcontext(self, task_name):
        return self

    def call_on_fit_task_begin(self, **_):
        pass

    def call_on_fit_task_end(self, **_):
        return False


class Estimator:
    """The attributes of an estimator that a run uses."""

    warm_start = False
    early_stopping = False
    validation_fraction = 0.25
    max_epochs = 5
    tol = None
    verbose = 0

    def __init__(self, **parameters):
        self.__dict__.update(parameters)

    def _seed(self):
        return 7

    def _strata(self, y):
        return None

    def _init_callback_context(self, max_subtasks):
        return Context()


class Number(NamedTuple):
    value: np.ndarray


class Countdown(Trainer):
    """A trainer whose losses are given beforehand; its state is the number of its epoch."""

    samples_objective = True
    title = "countdown"
    rows_per_epoch = 4

    def __init__(self, losses, validation=()):
        super().__init__(np.random.default_rng(0))
        self.losses, self.validation, self.state = losses, validation, Number(np.zeros(1))

    def visit_all(self, report):
        report(4)
        self.state.value[:] = self.epochs + 1
        return {"loss": self.losses[self.epochs]}

    def check(self, record):
        if record["loss"] > 100:
            raise ArithmeticError(record["epoch"])

    def objective(self):
        return self.losses[self.epochs - 1]

    def exact_objective(self):
        return self.losses[self.epochs - 1] + 1.0

    def validation_loss(self):
        return self.validation[self.epochs - 1]

    def held_out_loss(self):
        return 100.0 * self.state.value[0]

    def solution(self):
        return {"kept_": self.state.value[0]}


def rows(n=20):
    return LabelledRows(np.arange(2.0 * n).reshape(n, 2), np.arange(n) % 2, np.ones(n))


def run_of(estimator, held_out=None):
    return Run(estimator, rows(), 7, held_out=held_out)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_rows_of_weight_zero_are_left_out_and_weights_have_mean_one(form):
    weight = np.array([0.0, 2.0, 0.0, 4.0])
    given = LabelledRows(form(np.arange(8.0).reshape(4, 2)), np.arange(4), weight)
    kept = given.without_zero_weights()
    assert kept.y.tolist() == [1, 3]
    assert kept.X.shape == (2, 2)
    np.testing.assert_allclose(kept.with_mean_weight_one().weight, [2 / 3, 4 / 3])
    whole = rows()
    assert whole.without_zero_weights() is whole


def test_rows_held_out_and_rows_to_learn_from_are_all_rows_once():
    run = Run.start(Estimator(early_stopping=True), rows(), None, {})
    run.hold_out()
    assert run.held_out.y.size == 5
    together = np.concatenate([run.rows.X[:, 0], run.held_out.X[:, 0]])
    np.testing.assert_array_equal(np.sort(together), rows().X[:, 0])
    again = Run.start(Estimator(early_stopping=True), rows(), None, {})
    again.hold_out()
    np.testing.assert_array_equal(again.held_out.X, run.held_out.X)  # by the seed


def test_a_fit_takes_all_its_epochs():
    estimator = Estimator()
    train(run_of(estimator), Countdown([5, 4, 3, 2, 1]))
    assert [record["loss"] for record in estimator.history_] == [5, 4, 3, 2, 1]
    assert [record["epoch"] for record in estimator.history_] == [1, 2, 3, 4, 5]
    assert (estimator.n_iter_, estimator.kept_) == (5, 5)
    assert "objective" not in estimator.history_[0]  # nobody asked for it


def test_a_fit_stops_when_the_objective_no_longer_falls():
    estimator = Estimator(tol=0.5, max_epochs=9)
    train(run_of(estimator), Countdown([9.0, 5.0, 4.8, 4.7, 4.6, 1.0, 1.0, 1.0, 1.0]))
    assert estimator.n_iter_ == 5  # three epochs gained less than tol each
    assert estimator.history_[-1]["objective"] == 5.6  # that of all rows


def test_the_objective_is_of_all_rows_in_the_end():
    estimator = Estimator(verbose=1, max_epochs=2)
    train(run_of(estimator), Countdown([9.0, 5.0]))
    assert [record["objective"] for record in estimator.history_] == [9.0, 6.0]


def test_early_stopping_keeps_the_epoch_that_was_best_on_rows_held_out():
    estimator = Estimator(max_epochs=9)
    trainer = Countdown([1.0] * 9, validation=[3.0, 1.0, 2.0, 2.0, 2.0, 0.0, 0.0, 0.0, 0.0])
    train(run_of(estimator, held_out=rows(4)), trainer)
    assert (estimator.n_iter_, estimator.kept_) == (5, 2)
    assert [record["validation_loss"] for record in estimator.history_] == [3, 1, 2, 2, 2]
    # The exact loss is measured once, of the weights that are kept.
    assert [record.get("held_out_loss") for record in estimator.history_] == [None] * 4 + [200]


def test_the_best_epoch_is_copied_into_the_memory_of_the_one_before():
    first = copy_of(Number(np.array([1.0, 2.0])))
    second = copy_of(Number(np.array([3.0, 4.0])), first)
    assert second.value is first.value
    assert second.value.tolist() == [3.0, 4.0]
    other = Number(np.array([5.0]))
    grown = copy_of(other, second)
    assert grown.value is not other.value
    assert (grown.value.tolist(), second.value.tolist()) == ([5.0], [3.0, 4.0])


class OnCluster(Estimator):
    """An estimator without one of the parameters, as those on a cluster are."""

    @property
    def warm_start(self):
        raise AttributeError("warm_start")


def test_estimators_need_no_warm_start():
    estimator = OnCluster(max_epochs=2)
    train(run_of(estimator), Countdown([9.0, 5.0]))
    assert estimator.n_iter_ == 2


def test_a_divergence_ends_the_fit():
    estimator = Estimator()
    with pytest.raises(ArithmeticError, match="2"):
        train(run_of(estimator), Countdown([1, 1000, 1, 1, 1]))
    assert not hasattr(estimator, "kept_")


def test_batches_are_counted_on():
    estimator = Estimator()
    for _ in range(3):
        train_batch(estimator, Countdown([2.0]))
    assert [record["epoch"] for record in estimator.history_] == [1, 2, 3]
    assert estimator.n_iter_ == 3


def test_a_stopper_counts_epochs_without_improvement():
    stopper = Stopper(tol=0.1)
    assert [stopper.improved(loss) for loss in (1.0, 0.95, 0.5, 0.6)] == [True, True, True, False]
    assert stopper.idle == 1
    assert not stopper.exhausted


def test_rows_that_are_watched_are_the_same_each_time_and_not_a_pattern():
    rows = watched_rows(1000, 100)
    np.testing.assert_array_equal(rows, watched_rows(1000, 100))
    assert (np.unique(rows).size, rows.min() >= 0, rows.max() < 1000) == (100, True, True)
    assert np.unique(rows % 10).size == 10  # labels that alternate are all seen
    np.testing.assert_array_equal(watched_rows(7, 100.5), np.arange(7))
