"""The server of these tests speaks every protocol that is installed."""

import pytest

from tests.server.conftest import EVERY_PROTOCOL, serving


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """A server that all tests of this folder share."""
    folder = tmp_path_factory.mktemp("protocols")
    options = ("--keys", folder / "keys.db", "--audit", folder / "audit.jsonl", *EVERY_PROTOCOL)
    with serving(folder / "log", *options) as started:
        started.folder = folder
        yield started
