"""Pretrained and small encoders of text: found, loaded, given a head, written to a folder."""

ENCODER_NAMES = "minilm, tiny (small, from scratch), a folder or a hub name"
