"""What a training step occupies, and how it is made to fit."""
