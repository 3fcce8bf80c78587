"""A softmax with weights only for the pairs of a feature and a class that training rows have."""
