"""Discrete choice: alternatives with attributes of their own, and sets of those available."""
