"""Policies: rules learned on validation data, with a promise for new data; NumPy alone."""

from calibrant.policies.fingerprints import calibrator_fingerprint, model_fingerprint
from calibrant.policies.policy import Policy, load_policy

__all__ = ["Policy", "calibrator_fingerprint", "load_policy", "model_fingerprint"]
