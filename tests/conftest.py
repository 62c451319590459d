"""For all tests: what needs root is skipped with its reason elsewhere."""

import importlib.util
import os
import re
import sys
from pathlib import Path

import pytest


def pytest_collection_modifyitems(items):
    if os.geteuid() == 0:
        return
    for item in items:
        mark = item.get_closest_marker("needs_root")
        if mark is not None:
            reason = mark.kwargs.get("reason", "this part of the wall exists only when started as root")
            item.add_marker(pytest.mark.skip(reason=f"needs root: {reason}"))


@pytest.fixture(scope="session")
def postgres():
    """A PostgreSQL server with the database `shop`, and the role `reader` of the script in docs/sql.md."""
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'groundbox[postgres]'")
    spec = importlib.util.spec_from_file_location("postgres_for_tests", Path(__file__).with_name("postgres.py"))
    server = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = server
    spec.loader.exec_module(server)
    programs = server.programs()
    if programs is None:
        pytest.skip("no PostgreSQL server is installed: apt-get install postgresql")
    page = (Path(__file__).parents[1] / "docs" / "sql.md").read_text(encoding="utf-8")
    script = re.search(r"^```sql role\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[1]
    with server.running(programs, script.replace("'a long random password'", f"'{server.PASSWORD}'")) as running:
        yield running
