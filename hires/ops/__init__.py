"""Pure functions on boxes, windows and padding."""
