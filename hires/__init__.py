"""hires: train segmentation and detection models on images too big for the memory at hand."""

__version__ = "0.1.0"
