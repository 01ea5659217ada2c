"""What all tests share: hypothesis without deadlines, and where the real corpora are."""

import os
from pathlib import Path

import hypothesis
import pytest

# Machines that run tests are shared: a slow moment is no fault of the code.
hypothesis.settings.register_profile("calibrant", deadline=None, max_examples=40, derandomize=True)
hypothesis.settings.load_profile("calibrant")


@pytest.fixture(scope="session")
def corpora() -> Path:
    """The folder of real corpora: CALIBRANT_DATA, or shared/data beside the repository."""
    beside = Path(__file__).parents[2] / "shared" / "data"
    folder = Path(os.environ.get("CALIBRANT_DATA", beside))
    if not folder.is_dir():
        pytest.skip("no real corpora: set CALIBRANT_DATA to a folder that has ner/<corpus>/")
    return folder
