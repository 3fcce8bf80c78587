"""Softmax with any number of classes: steps of bounded cost."""
