"""Update rules: one file for each algorithm."""
