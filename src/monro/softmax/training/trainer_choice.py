"""The trainer class for a plan."""

from monro.softmax.plan import Plan
from monro.softmax.solvers import SOLVERS
from monro.softmax.training.minibatch_trainer import MinibatchTrainer
from monro.softmax.training.trainer import SoftmaxTrainer
from monro.softmax.training.variational_trainer import AugmentReduceTrainer


def trainer_of(plan: Plan) -> type[SoftmaxTrainer]:
    """Return the trainer class of a plan."""
    traits = SOLVERS[plan.solver]
    if traits.is_adaptive:
        return AugmentReduceTrainer
    return MinibatchTrainer if traits.is_implicit and plan.examples > 1 else SoftmaxTrainer


def steps_on_batches(plan: Plan) -> bool:
    """Return whether steps are on mini-batches.

    The trainers of mini-batches need the rows in memory, and class-major weights.
    """
    return trainer_of(plan) is not SoftmaxTrainer
