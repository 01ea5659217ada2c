"""Corpora of named entities: their files, tags and types."""
