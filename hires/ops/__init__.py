"""Pure functions on windows, padding and overlapping predictions."""
