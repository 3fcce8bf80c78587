"""Benchmarks: one module for each claim, peers in the same run, results as JSON."""
