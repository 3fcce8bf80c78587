from monro import LinearClassifier, LinearRegressor
from tests.linear.helpers import SOLVERS
from tests.marks import scikit_learn_checks

WITH_INVERSE_T = ("sgd", "asgd", "casgd", "implicit")

ORDER = "rows are visited in random order, so a row given twice takes other steps than its weight"
EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": ORDER,
    "check_sample_weight_equivalence_on_sparse_data": ORDER,
}
REGULARISED_BIAS = {
    "check_class_weight_classifiers": "the papers' bias starts at 0 and is regularised: "
    "500 steps on features of size 20 do not carry it to where all rows are of one class"
}


def expected_failures(estimator):
    if estimator.solver == "coordinate":  # no order
        return {}
    more = REGULARISED_BIAS if estimator.schedule == "inverse-t" else {}
    return EXPECTED_FAILURES | more


def estimators():
    """Every solver with each estimator's default loss, and every other loss; alpha is fixed."""
    made = [LinearClassifier(), LinearClassifier(loss="log"), LinearRegressor()]
    for kind in (LinearClassifier, LinearRegressor):
        # On a few hundred rows of two features the dual solver wants more epochs or more ridge.
        made += [
            kind(solver=solver, alpha=1e-3 if solver == "dual" else 1e-5)
            for solver in ("auto", *SOLVERS)
        ]
    made += [
        LinearClassifier(loss="log", alpha=1e-5),
        LinearClassifier(loss="log", solver="sgdqn", alpha=1e-5),
    ]
    made += [LinearClassifier(loss="squared_hinge", solver="dual", alpha=1e-3)]
    made += [
        LinearRegressor(loss="absolute", alpha=1e-5),
        LinearRegressor(loss="huber", solver="dual", alpha=1e-5),
    ]
    made += [LinearRegressor(loss="poisson", alpha=1e-5), LinearRegressor(loss="gamma", alpha=1e-5)]
    made += [LinearClassifier(loss="log", solver="coordinate", alpha=1e-3, l1_ratio=0.5)]
    made += [LinearRegressor(alpha=1e-3, l1_ratio=1.0, solver="coordinate")]
    made += [LinearClassifier(solver="implicit", alpha=1e-4, l1_ratio=0.5)]
    made += [LinearClassifier(scale=True), LinearRegressor(scale=True)]
    for solver in WITH_INVERSE_T:
        made += [LinearClassifier(solver=solver, schedule="inverse-t", alpha=0.01)]
        # The first of these rates is 1/alpha: explicit steps on a squared loss would overshoot.
        loss = "squared" if solver == "implicit" else "absolute"
        made += [LinearRegressor(loss=loss, solver=solver, schedule="inverse-t", alpha=0.01)]
    return made


def has_defaults(estimator):
    defaults = (type(estimator)(), type(estimator)(alpha=1e-5))
    return estimator.get_params() in [each.get_params() for each in defaults]


@scikit_learn_checks(estimators(), has_defaults, expected_failures)
def test_scikit_learn_check(estimator, check):
    check(estimator)
