import sys
from pathlib import Path

import hypothesis
import pytest

sys.path.insert(0, str(Path(__file__).parent))  # For calibrator_samples.

# Machines that run tests are shared: a slow moment is no fault of the code.
hypothesis.settings.register_profile("calibrant", deadline=None, max_examples=40, derandomize=True)
hypothesis.settings.load_profile("calibrant")


@pytest.fixture(scope="module")
def fitted():
    from calibrator_samples import quiet_fit, tagged

    from calibrant.calibrators import CALIBRATORS

    return {name: quiet_fit(row.calibrator(), tagged()) for name, row in CALIBRATORS.items()}
