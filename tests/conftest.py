"""For all tests: what needs root is skipped with its reason elsewhere."""

import os

import pytest


def pytest_collection_modifyitems(items):
    if os.geteuid() == 0:
        return
    for item in items:
        mark = item.get_closest_marker("needs_root")
        if mark is not None:
            reason = mark.kwargs.get("reason", "this part of the wall exists only when started as root")
            item.add_marker(pytest.mark.skip(reason=f"needs root: {reason}"))
