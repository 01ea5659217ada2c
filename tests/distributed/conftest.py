"""One small Ray cluster for all tests of this folder."""

import pytest

from calibrant.distributed.ray_cluster import connected


@pytest.fixture(scope="session")
def ray_cluster():
    """Start a cluster of two processors, for all tests that need one."""
    pytest.importorskip("ray", reason="Ray is not installed")
    with connected("local") as ray:
        yield ray
