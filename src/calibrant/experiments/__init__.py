"""Experiments: a recipe is run, alone or in a grid, and leaves a record."""
