"""Which classes a step draws."""
