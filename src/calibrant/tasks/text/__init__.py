"""Text classification: one class for each text."""
