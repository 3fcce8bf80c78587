"""The search for a learning rate, against functions whose best rate is known."""

import numpy as np
import pytest

from monro.fitting.rate_search import search_rate


def recorded(loss):
    """Return a trial, and the list of the rates it is called with."""
    asked = []

    def trial(rate):
        asked.append(rate)
        return loss(rate)

    return trial, asked


@pytest.mark.parametrize("best", [2.0**k for k in range(-9, 10)])
def test_it_finds_the_power_of_two_nearest_to_the_best_rate(best):
    found = search_rate(lambda rate: abs(np.log2(rate / best)), 1.0, most_steps=20)
    assert found == best


def test_it_does_not_halve_once_doubling_helped():
    trial, asked = recorded(lambda rate: (rate - 4.0) ** 2)
    assert search_rate(trial, 1.0, most_steps=20) == 4.0
    assert asked == [1.0, 2.0, 4.0, 8.0]


def test_a_larger_and_a_smaller_rate_must_be_better_by_their_gains():
    losses = {0.25: 10.0, 0.5: 99.95, 1.0: 100.0, 2.0: 96.0, 4.0: 50.0, 8.0: 49.0}
    options = {"most_steps": 20, "gain_up": 0.05, "gain_down": 0.001}
    assert search_rate(losses.__getitem__, 1.0, **options) == 1.0
    assert search_rate(losses.__getitem__, 2.0, **options) == 4.0
    assert search_rate(losses.__getitem__, 1.0, most_steps=3) == 8.0


def test_what_diverges_is_halved_until_it_does_not():
    trial, asked = recorded(lambda rate: np.nan if rate > 0.1 else 5.0 + rate)
    assert search_rate(trial, 1.0, most_steps=6) == 2.0**-6
    assert asked[:2] == [1.0, 0.5]
    assert search_rate(lambda rate: np.inf, 1.0, most_steps=3) == 0.125


def test_no_rate_above_the_largest_is_tried():
    trial, asked = recorded(lambda rate: -rate)
    assert search_rate(trial, 1.0, largest=5.0, most_steps=20) == 4.0
    assert max(asked) == 4.0
