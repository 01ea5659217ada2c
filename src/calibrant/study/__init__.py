"""A study: what the records of many runs say together, with intervals and tests."""
