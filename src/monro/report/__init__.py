"""Results as a single HTML page with tables and plots."""
