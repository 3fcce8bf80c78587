"""Linear classifiers and regressors by stochastic approximation."""
