"""Lets the tests of this folder share ``people_corpus``."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    from people_corpus import write_corpus

    return write_corpus(tmp_path_factory.mktemp("corpus"))
