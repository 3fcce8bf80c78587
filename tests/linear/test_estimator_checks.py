from sklearn.utils.estimator_checks import parametrize_with_checks

from monro import LinearClassifier, LinearRegressor

SOLVERS = (
    "auto",
    "dual",
    "sgd",
    "asgd",
    "casgd",
    "implicit",
    "aisgd",
    "sgdqn",
    "sgdqn-flawed",
)
WITH_INVERSE_T = ("sgd", "asgd", "casgd", "implicit")

ORDER = "rows are visited in random order, so a row given twice takes other steps than its weight"
EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": ORDER,
    "check_sample_weight_equivalence_on_sparse_data": ORDER,
}


def estimators():
    """Every solver with each estimator's default loss, and every other loss at least once."""
    made = []
    for kind in (LinearClassifier, LinearRegressor):
        made += [kind(solver=solver) for solver in SOLVERS]
    made += [LinearClassifier(loss="log"), LinearClassifier(loss="log", solver="sgdqn")]
    made += [LinearClassifier(loss="squared_hinge", solver="dual")]
    made += [LinearRegressor(loss="absolute"), LinearRegressor(loss="huber", solver="dual")]
    made += [LinearRegressor(loss="poisson")]
    for solver in WITH_INVERSE_T:
        made += [LinearClassifier(solver=solver, schedule="inverse-t", alpha=0.01)]
        # The first of these rates is 1/alpha: explicit steps on a squared loss would overshoot.
        loss = "squared" if solver == "implicit" else "absolute"
        made += [LinearRegressor(loss=loss, solver=solver, schedule="inverse-t", alpha=0.01)]
    return made


@parametrize_with_checks(estimators(), expected_failed_checks=lambda estimator: EXPECTED_FAILURES)
def test_scikit_learn_check(estimator, check):
    check(estimator)
