import sys
from pathlib import Path

import hypothesis
import pytest

sys.path.insert(0, str(Path(__file__).parent))  # For metric_loops, the plain-loop twins.

# Machines that run tests are shared: a slow moment is no fault of the code.
hypothesis.settings.register_profile("calibrant", deadline=None, max_examples=40, derandomize=True)
hypothesis.settings.load_profile("calibrant")


@pytest.fixture(params=["logits64", "logits32", "probabilities32", "ties", "saturated", "two"])
def predictions(request):
    from metric_loops import sample

    return sample(request.param)
