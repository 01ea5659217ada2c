"""Sentences and words of raw text, and the generated corpus."""
