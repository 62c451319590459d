"""A plugin of pytest that skips a test if a sandbox is refused for want of Landlock: `-p landlock_skips`.

Branching needs every layer, and the backend landlock that one; both are refused on a kernel without it.
"""

import pytest

from groundbox.errors import InvalidArgument, SandboxUnavailable


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item):
    """Skip a test whose fixture is refused a sandbox."""
    with skipping():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Skip a test that is refused a sandbox."""
    with skipping():
        return (yield)


class skipping:
    """Turns a refusal for want of Landlock into a skip."""

    def __enter__(self):
        return self

    def __exit__(self, kind, raised, _):
        refused = isinstance(raised, (InvalidArgument, SandboxUnavailable))
        if refused and ("landlock" in str(raised) or "with every layer" in str(raised)):
            pytest.skip(f"this kernel has no Landlock: {raised}")
