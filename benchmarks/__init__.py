"""Benchmarks: one module per claim, with peers in the same run and results as JSON."""
