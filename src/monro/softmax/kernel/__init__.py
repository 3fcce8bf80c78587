"""The compiled part: the layout of weights, the state, and the sweep over rows."""
