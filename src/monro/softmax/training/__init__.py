"""Training a softmax: from parameters to a plan, from a plan to a fitted model."""
