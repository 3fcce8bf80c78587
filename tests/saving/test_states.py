"""States declare their axes; nothing is guessed from sizes."""

from typing import Any, NamedTuple

import numpy as np
import pytest

from monro.rows import Array
from monro.saving.states import (
    Axis,
    PerClassAndFeature,
    PerExample,
    PerFeature,
    arrays_of,
    axes,
    flatten,
    map_arrays,
    same_shapes,
    unflatten,
)


class Memory(NamedTuple):
    g: PerExample


class Outer(NamedTuple):
    W: PerClassAndFeature
    w: PerFeature
    memory: Any
    t: Array


def a_state(features=3, examples=3):
    """Return a state whose arrays all have the same length: sizes do not distinguish them."""
    memory = Memory(np.arange(float(examples)))
    return Outer(np.ones((2, features)), np.ones(features), memory, np.zeros(3))


def test_axes_are_those_of_the_annotations():
    assert axes(Outer) == {
        "W": (Axis.CLASSES, Axis.FEATURES),
        "w": (Axis.FEATURES,),
        "memory": (),
        "t": (),
    }
    found = [declared for declared, _ in arrays_of(a_state())]
    assert found == [(Axis.CLASSES, Axis.FEATURES), (Axis.FEATURES,), (Axis.EXAMPLES,), ()]


def test_a_change_along_an_axis_leaves_other_arrays_alone():
    state = a_state()
    changed = map_arrays(lambda its, a: a + 1.0 if Axis.EXAMPLES in its else a, state)
    assert type(changed) is Outer
    assert changed.w is state.w
    assert changed.t is state.t
    np.testing.assert_array_equal(changed.memory.g, [1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (a_state(), True),
        (a_state(features=4), False),
        (a_state(examples=4), False),
        (a_state()._replace(w=np.zeros(0)), True),  # not there yet
        (a_state()._replace(memory=Outer(*a_state())), True),  # another kind of memory
        (Memory(np.zeros(3)), False),
    ],
)
def test_states_of_other_shapes_belong_to_other_fits(other, same):
    assert same_shapes(a_state(), other) == same


def test_files_keep_their_names_when_classes_are_renamed():
    arrays = {}
    kinds = {"State": Outer, "PerExample": Memory}
    state = a_state()
    structure = flatten("now", state, arrays, kinds)
    assert structure == ["State", ["W", "w", ["memory", ["PerExample", ["g"]]], "t"]]
    assert sorted(arrays) == ["now.W", "now.memory.g", "now.t", "now.w"]
    again = unflatten("now", structure, arrays, kinds)
    assert type(again.memory) is Memory
    for (_, part), (_, its) in zip(arrays_of(state), arrays_of(again), strict=True):
        np.testing.assert_array_equal(part, its)
        assert part is not its  # training changes states in place


def test_every_state_of_a_model_says_what_its_large_arrays_are():
    """Whatever a solver keeps in more than a few numbers has a declared axis."""
    from monro import LinearClassifier
    from monro.linear.solvers import SOLVERS

    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 7))
    y = X[:, 0] > 0
    for name in SOLVERS:
        loss = "log" if SOLVERS[name].needs_smooth_loss else "hinge"
        model = LinearClassifier(
            loss=loss, solver=name, warm_start=True, alpha=1e-5, random_state=0
        ).fit(X, y)
        for state in model._fitted.states:
            for declared, array in arrays_of(state):
                size = array.size
                expected = () if size == 1 else declared
                assert declared == expected or size == 0, name
                if Axis.EXAMPLES in declared:
                    assert size == 40
                if Axis.FEATURES in declared:
                    assert size == 0 or 0 <= size - 7 <= 3
