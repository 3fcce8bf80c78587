"""Readers of data files, stores larger than memory, and data sets by name."""
