"""Functions on windows, padding, boxes and overlapping predictions; they keep nothing."""
