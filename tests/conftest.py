"""For all tests: what needs root is skipped with its reason elsewhere; which of them run is in tests/tiers.py."""

import contextlib
import functools
import importlib.util
import os
import re
import signal
import sys
from pathlib import Path

import pytest


def _beside(name):
    """A module beside this one."""
    spec = importlib.util.spec_from_file_location(f"{name}_for_tests", Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background job has it so, and all that it starts
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.setdefault("GROUNDBOX_ENGINE", "off")  # tests that want the engine in the background say so
tiers = _beside("tiers")
_left_out = []
_no_turn = []
_seconds = {}


def pytest_addoption(parser):
    tiers.add_options(parser)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    _left_out[:] = tiers.select(config, items)
    if os.geteuid() == 0:
        return
    for item in items:
        mark = item.get_closest_marker("needs_root")
        if mark is not None:
            reason = mark.kwargs.get("reason", "this part of the wall exists only when started as root")
            item.add_marker(pytest.mark.skip(reason=f"needs root: {reason}"))


# Around everything else, so that waiting for a turn is not counted by pytest-timeout.
@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    if not hasattr(item.config, "workerinput") or _no_turn:
        yield
        return
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(tiers.turn(alone=item.get_closest_marker("alone") is not None))
        except tiers.NoTurn as no_turn:
            _no_turn.append(no_turn)  # the others would wait as long, and run without one
            item.runtest = functools.partial(pytest.fail, str(no_turn), pytrace=False)
        yield


def pytest_runtest_logreport(report):
    _seconds[report.nodeid] = _seconds.get(report.nodeid, 0) + report.duration


# With workers (pytest-xdist), collecting is theirs; reports reach the process that started them, and only it writes.
def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = _left_out
    elif session.config.getoption("--store-durations"):
        tiers.store(_seconds)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    _left_out[:] = getattr(node, "workeroutput", {}).get("left_out", _left_out)


def pytest_terminal_summary(terminalreporter):
    for line in _left_out:
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def postgres():
    """A PostgreSQL server with the database `shop`, and the role `reader` of the script in docs/sql.md."""
    pytest.importorskip("psycopg", reason="psycopg is not installed: the extra `postgres` of groundbox brings it")
    server = _beside("postgres")
    programs = server.programs()
    if programs is None:
        pytest.skip("no PostgreSQL server is installed: apt-get install postgresql")
    with server.running(programs, _role_script("sql role", server.PASSWORD)) as running:
        yield running


@pytest.fixture(scope="session")
def mariadb():
    """A MariaDB server with the database `shop`, and the role `reader` of the script in docs/sql.md."""
    pytest.importorskip("pymysql", reason="PyMySQL is not installed: the extra `mysql` of groundbox brings it")
    server = _beside("mariadb")
    programs = server.programs()
    if programs is None:
        pytest.skip("no MariaDB server is installed: apt-get install mariadb-server")
    with server.running(programs, _role_script("sql mysql role", server.PASSWORD)) as running:
        yield running


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """A browser without a window, whose `page(path)` opens a file (tests/browser.py)."""
    browser = _beside("browser")
    program = browser.program()
    if program is None:
        pytest.skip("no browser is installed: apt-get install chromium")
    with browser.running(program, tmp_path_factory.mktemp("browser")) as running:
        yield running


@pytest.fixture(scope="session")
def firebird():
    """A Firebird server with the database `shop`, and the role `reader` of the script in docs/sql.md."""
    pytest.importorskip(
        "sqlalchemy", reason="SQLAlchemy is not installed: the extra `sqlalchemy` of groundbox brings it"
    )
    pytest.importorskip("sqlalchemy_firebird", reason="its dialect is not installed: pip install sqlalchemy-firebird")
    server = _beside("firebird")
    programs = server.programs()
    if programs is None:
        pytest.skip("no Firebird server is installed: apt-get install firebird3.0-server")
    with server.running(programs, _role_script("sql firebird role", server.PASSWORD)) as running:
        yield running


@pytest.fixture
def crowd():
    """`with crowd(memory_bytes)`: a control group for all sandboxes of a server (tests/shortage.py)."""
    return _beside("shortage").crowd


@pytest.fixture
def small_disk():
    """`with small_disk(folder, size_bytes)`: a disk that is soon full (tests/shortage.py)."""
    return _beside("shortage").small_disk


def _role_script(block, password):
    """The script of docs/sql.md for a role that only reads."""
    page = (Path(__file__).parents[1] / "docs" / "sql.md").read_text(encoding="utf-8")
    script = re.search(rf"^```{block}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[1]
    return script.replace("'a long random password'", f"'{password}'")
