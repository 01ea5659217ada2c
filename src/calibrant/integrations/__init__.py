"""Adapters for other libraries, one module each; importing one needs its library."""
