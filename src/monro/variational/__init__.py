"""Augment and reduce (paper 001), shared by the softmax and the choice models."""
