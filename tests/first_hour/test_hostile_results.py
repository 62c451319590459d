"""What a hostile program makes a result say: who told how a run ended, and what is believed of it."""

import json
import mmap
import threading

import pytest

import groundbox as gb

# Finds the worker's socket and the number of the run, as anything that runs in process 1 can.
PROCESS_1 = """
import json, os, socket, stat, struct, sys, time
def host():
    for fd in range(3, 96):
        try:
            if stat.S_ISSOCK(os.fstat(fd).st_mode): return fd
        except OSError: continue
def number():
    frame = sys._getframe()
    while frame is not None:
        order = frame.f_locals.get('order')
        if isinstance(order, dict) and order.get('op') == 'run': return order['id']
        frame = frame.f_back
def send(told):
    body = told if isinstance(told, bytes) else json.dumps(told).encode()
    left = memoryview(struct.pack('<I', len(body)) + body)
    os.set_blocking(host(), True)
    while left: left = left[os.write(host(), left):]
"""
ANSWERS_FOR_LATER = (
    PROCESS_1
    + """
one, last = host(), number()
if os.fork() == 0:
    os.setsid()
    for _ in range(500):
        for later in range(last + 1, last + 12):
            send({'ev': 'done', 'id': later, 'ok': True, 'exit_code': 0})
        time.sleep(0.01)
    os._exit(0)
"""
)


@pytest.fixture
def box():
    with gb.Sandbox(profile="bare") as opened:
        yield opened


def test_a_script_in_a_sandbox_of_its_own_is_told_by_the_kernel(box):
    execution = box.run("raise SystemExit(7)", mode="script")

    assert (execution.exit_code, execution.trust) == (7, "kernel")
    assert execution.to_dict()["trust"] == "kernel"


def test_scripts_after_scripts_are_told_by_the_kernel(box):
    box.run("import os\nif os.fork() == 0:\n    import time; time.sleep(60)", mode="script")

    assert box.run("exit 3", language="shell").trust == "kernel"
    assert box.run("print(1)", mode="script").trust == "kernel"


def test_what_a_cell_says_of_itself_is_its_own_word(box):
    assert box.run("1").trust == "guest"


def test_after_a_hostile_cell_a_scripts_end_is_marked_as_the_guests_word(box):
    box.run(ANSWERS_FOR_LATER)

    later = box.run("exit 7", language="shell")

    assert later.exit_code in (0, 7)  # 0 is forged: the process that should report it belongs to the guest
    assert later.trust == "guest"


def test_a_deadline_is_the_hosts_word_also_after_a_hostile_cell(box):
    box.run("import os")

    execution = box.run("while True: pass", mode="script", wall_s=0.3)

    assert (execution.outcome, execution.trust) == (gb.Outcome.TIMEOUT, "kernel")


def test_after_a_restart_a_script_is_told_by_the_kernel_again(box):
    box.run(ANSWERS_FOR_LATER)

    box.restart()

    later = box.run("exit 7", language="shell")
    assert (later.exit_code, later.trust) == (7, "kernel")


def test_without_the_layer_that_keeps_a_script_out_of_process_1_its_end_is_the_guests_word():
    with gb.Sandbox(profile="bare", waive={"dumpable"}) as open_box:
        assert open_box.run("print(1)", mode="script").trust == "guest"


INTERRUPTS = {
    "a shell that goes on": ("kill -INT 1; sleep 0.1; exit 3", {"language": "shell"}),
    "a shell that does not heed": (
        "( sleep 0.05; kill -INT 1 ) & trap '' INT; sleep 0.2; exit 9",
        {"language": "shell"},
    ),
    "a script": ("import os, time\nos.kill(1, 2)\ntime.sleep(0.5)", {"mode": "script"}),
    "a cell": ("import os, time\nos.kill(1, 2)\ntime.sleep(0.5)", {}),
    "a cell that raises": ("raise KeyboardInterrupt", {}),
}


@pytest.mark.parametrize("kind", INTERRUPTS)
def test_a_program_that_interrupts_itself_was_not_cancelled(box, kind):
    source, options = INTERRUPTS[kind]

    execution = box.run(source, **options)

    assert execution.outcome is not gb.Outcome.CANCELLED
    assert execution.error is None or execution.error.message != "the run was interrupted"


def test_a_javascript_program_that_interrupts_process_1_was_not_cancelled(box):
    source = "process.on('SIGINT', () => {}); process.kill(1, 'SIGINT'); setTimeout(() => process.exit(5), 100)"

    execution = box.run(source, language="javascript", mode="script")

    assert (execution.outcome, execution.exit_code) == (gb.Outcome.ERROR, 5)


def test_a_program_that_the_host_interrupts_was_cancelled(box):
    box.run("1")
    timer = threading.Timer(0.5, box.interrupt)
    timer.start()

    execution = box.run("import time\ntime.sleep(20)")

    assert execution.outcome is gb.Outcome.CANCELLED


# What is shown is not what its type says: of each, what stays and what the warning says.
SHOWN = {
    "a picture that is no base64": ({"image/png": "A"}, None, "image/png is no base64"),
    "beside a text": ({"image/png": "A", "text/plain": "x"}, {"text/plain": "x"}, "image/png is no base64"),
    "padding in the middle": ({"image/png": "QQ==QQ=="}, None, "image/png is no base64"),
    "a picture that is a number": ({"image/jpeg": 5, "text/plain": "x"}, {"text/plain": "x"}, "image/jpeg is no text"),
    "a text that is a number": ({"text/plain": 5}, None, "text/plain is no text"),
    "a page that is a list": ({"text/html": [], "text/plain": "x"}, {"text/plain": "x"}, "text/html is no text"),
    "an image of XML that is an object": (
        {"image/svg+xml": {}, "a/json": 1},
        {"a/json": 1},
        "image/svg+xml is no text",
    ),
    "a type on two lines": ({"a\nb": "x", "text/plain": "x"}, {"text/plain": "x"}, "'a\\nb' is no media type"),
}


@pytest.mark.parametrize("kind", SHOWN)
@pytest.mark.parametrize("way", ["display", "value"])
def test_what_is_not_what_its_type_says_is_left_out_and_told(box, kind, way):
    forms, kept, why = SHOWN[kind]
    told = (
        f"{{'ev': 'display', 'data': {forms!r}}}"
        if way == "display"
        else f"{{'ev': 'done', 'id': number(), 'ok': True, 'value': {forms!r}}}"
    )

    execution = box.run(PROCESS_1 + f"send({told})")

    (warning,) = execution.warnings
    assert (warning.code, warning.evidence) == ("display.left_out", {"forms": 1, "reasons": {why: 1}})
    if way == "display":
        assert [dict(display.data) for display in execution.displays] == ([] if kept is None else [kept])
        assert execution.dropped_bytes["displays"] == (kept is None)
    else:
        assert execution.value == kept
    assert [display.png for display in execution.displays] == [None] * len(execution.displays)


def test_a_script_cannot_report_a_picture_that_is_none(box):
    source = """
import fcntl, json, os, stat
for fd in range(3, 96):
    try: is_pipe = stat.S_ISFIFO(os.fstat(fd).st_mode) and fcntl.fcntl(fd, fcntl.F_GETFL) & 3 == os.O_WRONLY
    except OSError: continue
    told = {"ev": "display", "data": {"image/png": "A", "text/plain": "x"}}
    if is_pipe: os.write(fd, json.dumps(told).encode() + b"\\n")
"""
    execution = box.run(source, mode="script")

    assert [dict(display.data) for display in execution.displays] == [{"text/plain": "x"}]
    assert execution.warnings[0].code == "display.left_out"


HEAVY = {
    "a value of many objects": ("'value': {'a': {'%x' % n: {} for n in range(95000)}}", {"value"}),
    "names of a failure": (
        "'error': {'type': 'E', 'message': '', 'locals': {str(n): 'x' * 99 for n in range(90000)}}",
        {"error"},
    ),
    "hints": ("'error': {'type': 'E', 'message': '', 'hints': ['x' * 99] * 90000}", {"error"}),
    "a message": ("'error': {'type': 'E', 'message': 'x' * 15000000}", {"error"}),
    "a traceback": ("'error': {'type': 'E', 'message': '', 'traceback': 'x' * 15000000}", {"error"}),
}


@pytest.mark.parametrize("kind", HEAVY)
def test_every_kind_of_result_is_bounded(box, kind):
    """Beside displays up to their bound: what a run holds of the host is 64 MiB, and a few for a failure."""
    done, _ = HEAVY[kind]
    source = f"""
shown = b'{{"ev":"display","data":{{"a":"' + b'x' * 8_000_000 + b'"}}}}'
for _ in range(7): send(shown)
send({{'ev': 'done', 'id': number(), 'ok': False, {done}}})
"""
    execution = box.run(PROCESS_1 + source)

    assert len(json.dumps(execution.to_dict()["error"])) < 2_000_000
    assert execution.value is None or execution.text.startswith("too large to keep beside what the run has shown")
    assert len(execution.displays) == 7


def test_as_many_displays_of_one_run_take_no_more_than_their_bound(box):
    box.run("1")
    before = _resident()

    execution = box.run(
        PROCESS_1
        + """
for _ in range(40): send({'ev': 'display', 'data': {'a': {'%x' % n: {} for n in range(20000)}}})
"""
    )

    assert len(execution.displays) + execution.dropped_bytes["displays"] == 40
    assert 0 < len(execution.displays) < 40
    assert _resident() - before < 128 * gb.MiB


def _resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * mmap.PAGESIZE
