"""Semantic segmentation: one class for each pixel of an image."""
