"""What all tests share: hypothesis without deadlines, and where the real corpora are."""

import os
import shutil
from importlib.util import find_spec
from pathlib import Path

import hypothesis
import numpy as np
import pytest

from calibrant import Predictions

# Modules of tests that are about another library, and run where it is installed.
ABOUT = {
    "calibrators/test_pipeline.py": ("transformers",),
    "metrics/test_libraries.py": ("netcal", "torchmetrics"),
}
collect_ignore = [
    module for module, libraries in ABOUT.items() if not all(map(find_spec, libraries))
]

# Machines that run tests are shared: a slow moment is no fault of the code.
hypothesis.settings.register_profile("calibrant", deadline=None, max_examples=40, derandomize=True)
hypothesis.settings.load_profile("calibrant")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Let one worker run all tests of an xdist_group: clusters must not run beside each other.

    xdist 3.8 says so by a new name of the test, ``…@group``, which pytest 9.2 no longer reads.
    """
    for item in items:
        renamed = getattr(item, "_nodeid", item.nodeid)
        if renamed != item.nodeid and "@" in renamed:
            from _pytest.nodeid import coerce_node_id

            item._id = coerce_node_id(renamed)


@pytest.fixture(scope="session")
def corpora() -> Path:
    """The folder of real corpora: CALIBRANT_DATA, or shared/data next to the repository."""
    beside = Path(__file__).parents[2] / "shared" / "data"
    folder = Path(os.environ.get("CALIBRANT_DATA", beside))
    if not folder.is_dir():
        pytest.skip("no real corpora: set CALIBRANT_DATA to a folder that has ner/<corpus>/")
    return folder


@pytest.fixture(scope="session")
def overconfident():
    """2,000 predictions of 10 classes whose logits are stretched 2.5 times."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, 2000)
    logits = rng.normal(size=(2000, 10))
    logits[np.arange(2000), labels] += 1.8
    return Predictions.from_logits(4.5 * logits, labels)


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    for program in ("chromium", "chromedriver"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed (Debian: apt install chromium-driver)")
    from tests.browser import Browser

    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()
