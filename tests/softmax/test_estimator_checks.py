from monro import SoftmaxClassifier
from monro.links import LINKS
from tests.marks import scikit_learn_checks

SOLVERS = ("umax", "vanilla", "ove", "nce", "importance", "sco", "exact")

ORDER = "rows are visited in random order, so a row given twice takes other steps than its weight"
EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": ORDER,
    "check_sample_weight_equivalence_on_sparse_data": ORDER,
}


NO_FEATURES = {
    "check_estimators_empty_data_messages": "intercepts alone, without a feature, are a model"
}


def expected_failures(estimator):
    if estimator.solver == "augment-reduce":
        return EXPECTED_FAILURES | NO_FEATURES
    return {} if estimator.solver == "lbfgs" else EXPECTED_FAILURES


def estimators():
    """The defaults, every solver, and every other way to take steps; few epochs save time."""
    # Not all checks set a seed, and explicit steps may be unlucky.
    few = {"alpha": 0.0, "max_epochs": 5, "random_state": 0}
    # The paper's rate is for tens of thousands of steps.
    reduce = {
        "alpha": 0.0,
        "examples_per_step": 5,
        "learning_rate": 0.3,
        "max_epochs": 50,
        "random_state": 0,
    }
    made = [SoftmaxClassifier(solver=solver, **few) for solver in SOLVERS]
    made += [
        SoftmaxClassifier(),
        SoftmaxClassifier(alpha=0.0),
        # The checks compare weights to 1e-7.
        SoftmaxClassifier(solver="lbfgs", alpha=1e-3, max_epochs=200, dtype="float64"),
        SoftmaxClassifier(formulation="raman", **few),
        *(SoftmaxClassifier(solver="augment-reduce", link=link, **reduce) for link in LINKS),
        SoftmaxClassifier(sampling="uniform", **few),
        SoftmaxClassifier(init="zero", **few),
        SoftmaxClassifier(dtype="float64", **few),
        SoftmaxClassifier(scale=True, alpha=1e-3, **few),
        # A reference, not fast: without trials of the rate.
        SoftmaxClassifier(alpha=0.0, examples_per_step=4, max_epochs=1, learning_rate=0.3),
    ]
    return made


def is_default_or_exact(estimator):
    return (
        estimator.solver == "lbfgs"
        or estimator.get_params() == SoftmaxClassifier(alpha=0.0).get_params()
    )


@scikit_learn_checks(estimators(), is_default_or_exact, expected_failures)
def test_scikit_learn_check(estimator, check):
    check(estimator)
