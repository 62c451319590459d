"""What the parts of the conformance suite share: making sandboxes of the backend under test, and closing them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import pytest

from groundbox import AsyncSandbox, Sandbox


class Conformance:
    """One part of the suite.

    Attributes:
        sandbox_options: What every sandbox of the suite is made with.
        lacking: Name of a test to the reason why this backend cannot have that property. The test is skipped
            with the reason, so that a reader of the log sees what the backend does not give.
    """

    sandbox_options: ClassVar[Mapping[str, Any]] = {}
    lacking: ClassVar[Mapping[str, str]] = {}

    _opened: contextlib.ExitStack

    @pytest.fixture(autouse=True)
    def _close_sandboxes(self, request: pytest.FixtureRequest) -> Iterator[None]:
        unknown = [name for name in self.lacking if not hasattr(self, name)]
        assert not unknown, f"lacking names no test: {unknown}"
        name = request.function.__name__
        if name in self.lacking:
            pytest.skip(self.lacking[name])
        with contextlib.ExitStack() as self._opened:
            yield

    def sandbox(self, **options: Any) -> Sandbox:
        """A sandbox that is closed when the test ends; of the profile `bare` unless told otherwise."""
        return self._opened.enter_context(Sandbox(**{"profile": "bare", **self.sandbox_options, **options}))

    def async_sandbox(self) -> AsyncSandbox:
        """Return a sandbox for code with an event loop, which the test closes; of the profile `bare`, too."""
        return AsyncSandbox(**{"profile": "bare", **self.sandbox_options})


def until(condition: Callable[[], bool], *, within_s: float = 10.0) -> bool:
    """Whether `condition` comes true. The time is for giving up; nothing is measured by it."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
