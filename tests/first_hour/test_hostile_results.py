"""What a hostile program makes a result say: who told how a run ended, and what is believed of it."""

import pytest

import groundbox as gb

# Finds the worker's socket and the number of the run, as anything that runs in process 1 can.
PROCESS_1 = """
import json, os, socket, stat, struct, sys, time
def host():
    for fd in range(3, 64):
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

    assert later.exit_code == 0  # forged: the process that should report it belongs to the guest
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
