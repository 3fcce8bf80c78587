"""Results as one page to look at."""
