"""Pretrained and small encoders of text: found, loaded, given a head, written to a folder."""
