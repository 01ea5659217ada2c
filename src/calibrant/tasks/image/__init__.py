"""Image classification: one class for each image."""
