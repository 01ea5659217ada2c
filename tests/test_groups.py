"""Tests that share a cluster run in one worker."""

import pytest


@pytest.mark.xdist_group("alone")
@pytest.mark.parametrize("number", ["1", "[2]"])
def test_a_group_is_part_of_the_name_by_which_xdist_deals(number, request):
    if not getattr(request.config.option, "loadgroup", False):
        pytest.skip("needs --dist loadgroup, as in make test")
    assert request.node.nodeid.endswith("@alone")
