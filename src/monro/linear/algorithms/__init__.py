"""The linear solvers: one algorithm per file, each with its kernel and its state."""
