"""Attacks are programs that run in a sandbox and try something; the host judges by what it planted.

A test that is marked `layers` runs several times, each time with other layers switched off (`waive`):
`holds` are the sets of layers without which the attack must still fail, `breaks` those without which it
must succeed. The second kind proves that the attack is a real one and that exactly these layers hold it.
A set is written as one string, "" for all layers standing; "root: …" and "user: …" apply only there,
because an ordinary user has no host ids to give away.

Beside each test beats a heart: the event loop that serves the sandboxes must come to its turn whatever a guest does.
The longest gaps are printed at the end.
"""

import contextlib
import gc
import json
import os
import platform
import secrets
import shutil
import tempfile

import pytest

from groundbox import Sandbox
from groundbox.jail.syscalls import NUMBERS
from groundbox.testing.heartbeat import MOST_S, Heartbeat

_SHOWN_GAPS = 10
PRELUDE = """
import ctypes, errno, os
_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_NUMBERS = {numbers}

def call(name, *arguments):
    '''One system call: its result, or minus the errno.'''
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = _libc.syscall(ctypes.c_long(_NUMBERS[name]), *words)
    return result if result >= 0 else -ctypes.get_errno()

def slurp(path, size=1 << 16):
    '''What can be read from a path, or nothing.'''
    try:
        with open(path, 'rb', buffering=0) as file:
            return file.read(size) or b''
    except OSError:
        return b''

def attempt(action, *arguments):
    '''The result, or the name of what went wrong.'''
    try:
        return action(*arguments)
    except Exception as error:
        code = getattr(error, 'errno', None)
        return errno.errorcode.get(code) or type(error).__name__
""".replace("{numbers}", json.dumps(NUMBERS[platform.machine()]))


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "layers(holds, breaks): run with layers switched off; tests/escape/conftest.py says how"
    )


def pytest_collection_modifyitems(items):
    for item in items:
        if "/escape/" in str(item.path):
            item.add_marker(pytest.mark.escape)


def pytest_terminal_summary(terminalreporter):
    reports = [report for reports in terminalreporter.stats.values() for report in reports]
    told = [(gap, report.nodeid) for report in reports for gap in _gaps(report)]
    if told:
        terminalreporter.section("longest gaps of the event loop")
    for gap, name in sorted(told, reverse=True)[:_SHOWN_GAPS]:
        terminalreporter.write_line(f"{gap}  {name}")


def _gaps(report):
    if getattr(report, "when", "") != "teardown":
        return []
    return [value for name, value in report.user_properties if name == "gap"]


def pytest_generate_tests(metafunc):
    mark = metafunc.definition.get_closest_marker("layers")
    if mark is None:
        return
    cases = [(text, False) for text in mark.kwargs.get("holds", [""])]
    cases += [(text, True) for text in mark.kwargs.get("breaks", [])]
    metafunc.parametrize(("waive", "breached"), [_case(*case) for case in cases])


def _case(text, breached):
    mode, colon, layers = text.rpartition(":")
    elsewhere = colon and mode != ("root" if os.geteuid() == 0 else "user")
    marks = [pytest.mark.skip(reason=f"applies to {mode} only")] if elsewhere else []
    name = f"without {layers.strip()}" if layers.strip() else "all layers"
    verdict = "breaks" if breached else "holds"
    return pytest.param(frozenset(layers.split()), breached, marks=marks, id=f"{name}: {verdict}")


@pytest.fixture(scope="session")
def heart():
    """Beats on the event loop of all sandboxes of this process."""
    # What all the tests are would be gone through by the collector of garbage for half a second, in whichever thread.
    gc.collect()
    gc.freeze()
    with Heartbeat() as beating:
        yield beating


@pytest.fixture(autouse=True)
def heartbeat(heart, record_property, request):
    """No test may hold the loop: neither work in its thread nor let it wait for longer than a guest may.

    Where several processes test at once, the gap is told and not judged; `make heartbeat` has one process.

    Work is told by the thread's processor time. Waiting is judged five times as mildly, since a machine that is busy
    with other things makes it longer in ways that are not seen; test_heartbeat.py repeats what it does, and is strict.
    """
    heart.reset()
    yield heart
    gap = heart.longest()
    record_property("gap", str(gap))
    if hasattr(request.config, "workerinput"):
        return
    assert min(gap.cpu_s, gap.late_s) <= 2 * MOST_S, f"the event loop was busy: {gap}"
    assert gap.own_s <= 5 * MOST_S, f"the event loop stood still: {gap}"


@pytest.fixture
def sandbox():
    """Makes sandboxes that are closed when the test ends."""
    with contextlib.ExitStack() as opened:

        def make(**options):
            if BACKEND:
                if options.get("waive") or options.keys() & {"network", "branching"}:
                    pytest.skip(f"the backend {BACKEND} has no such sandboxes")
                options = {"backend": BACKEND, **options}
            box = opened.enter_context(Sandbox(**{"profile": "bare", **options}))
            return _copied(box, opened) if COPIES and not options.keys() & UNCOPIED else box

        yield make


COPIES = os.environ.get("GROUNDBOX_ESCAPE_FROM", "")
"""`fork` or `restored`: attacks are made from such sandboxes, where they can be: a copy is to hold what others do."""
BACKEND = os.environ.get("GROUNDBOX_ESCAPE_BACKEND", "")
"""Another backend than namespaces, such as `gvisor`, for the attacks that name none."""
UNCOPIED = {"waive", "network", "backend", "branching"}


def _copied(box, opened):
    if COPIES == "fork":
        return opened.enter_context(box.fork(1)[0])
    box.restore(box.checkpoint())
    return box


@pytest.fixture
def attack(sandbox):
    """Runs one program, with `call`, `slurp` and `attempt` at hand, in a sandbox of its own."""

    def run(source, *, mode="cell", wall_s=None, stdin=None, **options):
        box = sandbox(**options)
        more = {} if stdin is None else {"stdin": stdin}
        return box.run(PRELUDE + source, mode=mode, wall_s=wall_s, **more)

    return run


@pytest.fixture
def prelude():
    """What attacks start with, for tests that run several programs in one sandbox."""
    return PRELUDE


@pytest.fixture
def nonce():
    """A word that nothing inside can know."""
    return secrets.token_hex(16)


@pytest.fixture
def planted(nonce):
    """A host file that anyone on this host may read; what it holds must never come out of a sandbox."""
    folder = tempfile.mkdtemp(prefix="groundbox-test-", dir="/var/tmp")
    os.chmod(folder, 0o755)
    path = f"{folder}/secret.txt"
    with open(path, "w") as file:
        file.write(nonce)
    yield path
    shutil.rmtree(folder)


@pytest.fixture
def everything():
    """All bytes of a result in which a secret could leave."""

    def collect(execution):
        parts = [json.dumps(execution.to_dict()).encode()]
        parts += [artifact.read() for artifact in execution.artifacts.values()]
        parts += [handle.read() for handle in execution.outputs.values()]
        return b"\n".join(parts)

    return collect
