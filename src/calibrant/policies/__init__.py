"""Policies: rules learned on validation data, with a promise for new data; NumPy alone."""

from calibrant.policies.fingerprints import calibrator_fingerprint, model_fingerprint
from calibrant.policies.learning import Items, guarantee, guarantee_items
from calibrant.policies.policy import Policy, load_policy

__all__ = [
    "Items",
    "Policy",
    "calibrator_fingerprint",
    "guarantee",
    "guarantee_items",
    "load_policy",
    "model_fingerprint",
]
