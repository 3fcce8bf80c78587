"""Validation of what estimators are given: parameters, rows, weights and labels."""
