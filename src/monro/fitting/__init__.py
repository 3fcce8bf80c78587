"""One fit, whatever the model."""
