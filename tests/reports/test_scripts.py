"""A script is a process of its own: what cells of its sandbox changed in theirs is not changed in it."""

import pytest

import groundbox as gb

LEAKS = {
    "start method": (
        "import multiprocessing as mp; q = mp.Queue()",
        "import multiprocessing as mp\nmp.set_start_method('spawn'); print('ok')",
        "ok",
    ),
    "precision": (
        "import decimal; decimal.getcontext().prec = 3",
        "import decimal; print(decimal.getcontext().prec)",
        "28",
    ),
    "recursion limit": (
        "import sys; sys.setrecursionlimit(77_777)",
        "import sys; print(sys.getrecursionlimit())",
        "1000",
    ),
    "warning filters": (
        "import warnings; warnings.simplefilter('error')",
        "import warnings; warnings.warn('x'); print('ok')",
        "ok",
    ),
    "a patched module": ("import json; json.dumps = None", "import json; print(json.dumps([1]))", "[1]"),
    "a patched built-in": (
        "import builtins; builtins.print = repr",
        "print(7)",
        "7",
    ),
    "an exit function": ("import atexit; _ = atexit.register(print, 'of the cell')", "print('ok')", "ok"),
    "a thread": (
        "import threading, time; threading.Thread(target=time.sleep, args=(600,)).start()",
        "import threading; print(threading.active_count())",
        "1",
    ),
    "a module's old text": (
        "open('helper.py', 'w').write('value = 1'); import helper; _ = open('helper.py', 'w').write('value = 22')",
        "import helper; print(helper.value)",
        "22",
    ),
    "a signal's handler": (
        "import signal; _ = signal.signal(signal.SIGTERM, signal.SIG_IGN)",
        "import signal; print(signal.getsignal(signal.SIGTERM) == signal.SIG_DFL)",
        "True",
    ),
    "a hook": (
        "import sys; sys.excepthook = None; sys.settrace(None); sys.setswitchinterval(1)",
        "import sys; print(sys.getswitchinterval())",
        "0.005",
    ),
    "options of pandas": (
        "import pandas; pandas.set_option('display.max_rows', 3)",
        "import pandas; print(pandas.get_option('display.max_rows'))",
        "60",
    ),
    "options of numpy": (
        "import numpy; numpy.set_printoptions(precision=2)",
        "import numpy; print(numpy.array([1.23456]))",
        "[1.23456]",
    ),
    "settings of matplotlib": (
        "import matplotlib; matplotlib.rcParams['lines.linewidth'] = 9",
        "import matplotlib; print(matplotlib.rcParams['lines.linewidth'])",
        "1.5",
    ),
}


@pytest.mark.parametrize(("cell", "script", "printed"), LEAKS.values(), ids=LEAKS.keys())
def test_a_script_sees_nothing_of_what_a_cell_changed(cell, script, printed):
    with gb.Sandbox() as box:
        changed = box.run(cell)
        ran = box.run(script, mode="script")

    assert changed.ok, changed.error
    assert ran.stdout.strip() == printed, ran.error


def test_a_script_takes_the_environment_and_the_folder_of_the_sandbox():
    with gb.Sandbox() as box:
        box.run("import os\nos.environ['OF_A_CELL'] = 'ä'\nos.mkdir('below')\nos.chdir('below')")
        ran = box.run("import os; print(os.environ['OF_A_CELL'], os.path.basename(os.getcwd()))", mode="script")

    assert ran.stdout == "ä below\n"


def test_cells_keep_their_variables_while_scripts_run_between_them():
    with gb.Sandbox() as box:
        for number in range(3):
            box.run(f"x{number} = {number}")
            script = box.run("import sys; print(input()); sys.exit(3)", mode="script", stdin="given")
            assert (script.stdout, script.exit_code) == ("given\n", 3)
        ran = box.run("x0, x1, x2")

    assert ran.value["text/plain"] == "(0, 1, 2)"


def test_a_cell_sees_no_process_that_it_did_not_start():
    with gb.Sandbox() as box:
        box.run("x = 1")
        ran = box.run("import os\ntry:\n    os.wait()\nexcept ChildProcessError:\n    print('none')")

    assert ran.stdout == "none\n"


def test_scripts_go_on_if_a_cell_ends_all_processes():
    with gb.Sandbox() as box:
        box.run(
            "import os, signal\n"
            "others = [int(each) for each in os.listdir('/proc') if each.isdigit() and int(each) != os.getpid()]\n"
            "for each in others: os.kill(each, signal.SIGKILL)"
        )
        ran = [box.run("print(6 * 7)", mode="script").stdout for _ in range(2)]

    assert ran == ["42\n", "42\n"]


def test_a_script_ends_as_the_kernel_says_also_after_a_cell():
    with gb.Sandbox() as box:
        box.run("x = 1")
        killed = box.run("import os; os.kill(os.getpid(), 9)", mode="script")
        left = box.run(
            "import subprocess; _ = subprocess.Popen(['sleep', '600'], start_new_session=True)", mode="script"
        )
        ran = box.run(
            "import os\n"
            "[p for p in os.listdir('/proc') if p.isdigit() and open(f'/proc/{p}/comm').read() == 'sleep\\n']"
        )

    assert (killed.outcome, killed.exit_signal) == (gb.Outcome.SIGNAL, 9)
    assert left.ok
    assert ran.value["text/plain"] == "[]"


def test_a_script_may_end_before_its_worker_looks_at_it():
    with gb.Sandbox() as box:
        box.run(
            "import signal, time\n"
            "real = signal.signal\n"
            "def slow(*given):\n    time.sleep(0.1)\n    return real(*given)\n"
            "signal.signal = slow"
        )
        ran = [box.run("print(6 * 7)", mode="script") for _ in range(2)]
        kept = box.run("real is slow")

    assert [(each.stdout, each.exit_code) for each in ran] == [("42\n", 0)] * 2
    assert kept.value["text/plain"] == "False"
