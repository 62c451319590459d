"""Processes that programs start: their output, their program's file, and what is left when they end."""

import pytest

import groundbox as gb

POOL = """
from multiprocessing import get_context
def sq(v):
    print('sq', v)
    return v * v
if __name__ == '__main__':
    with get_context({method!r}).Pool(2) as p:
        out = p.map(sq, range(5))
"""
ENDED_BY_SIGNAL = """
import multiprocessing as mp, time
def work(q):
    print('written before the signal')
    q.put(1)
    time.sleep(600)
if __name__ == '__main__':
    context = mp.get_context({method!r})
    q = context.SimpleQueue()
    p = context.Process(target=work, args=(q,))
    p.start(); q.get(); p.terminate(); p.join()
"""
QUEUE = """
import multiprocessing as mp

def work(q, n):
    q.put(n * 2)

if __name__ == "__main__":
    mp.set_start_method({method!r})
    q = mp.Queue()
    p = mp.Process(target=work, args=(q, 21))
    p.start()
    print(q.get())
    p.join()
"""
EXECUTOR = """
import multiprocessing
from concurrent.futures import ProcessPoolExecutor

def work(n):
    return n * 2

if __name__ == "__main__":
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context({method!r})) as pool:
        print(*pool.map(work, [21]))
"""
METHODS = ("fork", "spawn", "forkserver")


@pytest.mark.parametrize("method", METHODS)
def test_lines_of_a_pool_are_not_lost(method):
    source = POOL.format(method=method)
    runs = [gb.run(source, mode="script") for _ in range(4 if method == "fork" else 1)]

    assert [sorted(ran.stdout.splitlines()) for ran in runs] == [[f"sq {n}" for n in range(5)]] * len(runs)


@pytest.mark.parametrize("method", METHODS)
def test_a_line_is_not_lost_if_a_signal_ends_its_process(method):
    ran = gb.run(ENDED_BY_SIGNAL.format(method=method), mode="script")

    assert ran.stdout == "written before the signal\n"


def test_lines_of_processes_of_a_cell_are_not_lost():
    ran = gb.run(ENDED_BY_SIGNAL.format(method="fork"))

    assert ran.stdout == "written before the signal\n"


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("source", [QUEUE, EXECUTOR], ids=["queue", "executor"])
def test_a_script_starts_processes_by_each_method(source, method):
    ran = gb.run(source.format(method=method), mode="script")

    assert ran.stdout == "42\n", ran.error


@pytest.mark.parametrize(
    "source",
    [
        "print(open(__file__).read())",
        "import sys\nprint(open(sys.argv[0]).read())",
        "import pathlib\nprint(pathlib.Path('main.py').read_text())",
        "import os, sys\nif sys.argv[1:]: print('again')\nelse: os.execv(sys.executable, ['python', __file__, '1'])",
    ],
)
def test_a_script_finds_its_file_which_is_gone_afterwards(source):
    with gb.Sandbox() as box:
        ran = box.run(source, mode="script")
        left = box.files.list()

    assert ran.stdout.strip() in (source, "again")
    assert not left
    assert not ran.artifacts


def test_the_file_of_a_script_replaces_no_file_of_that_name():
    with gb.Sandbox() as box:
        box.files.write("main.py", b"value = 5")
        ran = box.run("import main, os\nprint(main.value, os.path.basename(__file__), os.listdir())", mode="script")
        kept = box.files.read("main.py")

    assert (
        ran.stdout == "5 main_1.py ['main_1.py', 'main.py']\n" or ran.stdout == "5 main_1.py ['main.py', 'main_1.py']\n"
    )
    assert kept == b"value = 5"


def test_a_script_that_is_ended_at_its_limit_leaves_no_file_of_its_own():
    ran = gb.run("__file__\nopen('made.txt', 'w').close()\nwhile True: pass", mode="script", limits=gb.Limits(wall_s=1))

    assert list(ran.artifacts) == ["made.txt"]


ORPHANS_OF_CHILDREN = """
import os
for _ in range(200):
    if (child := os.fork()) == 0:
        os.fork()
        os._exit(0)
    os.waitpid(child, 0)
print('done')
"""
ORPHANS_OF_A_SHELL = "for i in $(seq 200); do (true &) ; done; echo done"


@pytest.mark.parametrize(
    ("source", "options"),
    [
        (ORPHANS_OF_CHILDREN, {"mode": "script"}),
        (ORPHANS_OF_CHILDREN, {}),
        (ORPHANS_OF_A_SHELL, {"language": "shell"}),
        (f"!{ORPHANS_OF_A_SHELL}", {}),
        (f"import os\n_ = os.system('''{ORPHANS_OF_A_SHELL}''')", {}),
        (f"import subprocess\n_ = subprocess.run('''{ORPHANS_OF_A_SHELL}''', shell=True)", {}),
        (f"import subprocess\n_ = subprocess.run('''{ORPHANS_OF_A_SHELL}''', shell=True)", {"mode": "script"}),
    ],
    ids=["script", "cell", "shell", "magic", "system", "subprocess", "subprocess of a script"],
)
def test_orphans_that_ended_do_not_count_as_processes(source, options):
    ran = gb.run(source, limits=gb.Limits(wall_s=60, process_count=32), **options)

    assert ran.stdout == "done\n", ran.stderr[-500:]
    assert ran.stderr == ""


def test_a_cell_still_hears_how_processes_of_its_own_ended():
    ran = gb.run(
        "import subprocess, time\n"
        "own = [subprocess.Popen(['sh', '-c', f'exit {n % 5}']) for n in range(20)]\n"
        f"_ = subprocess.run('''{ORPHANS_OF_A_SHELL}''', shell=True)\n"
        "[each.wait() for each in own] == [n % 5 for n in range(20)]",
        limits=gb.Limits(wall_s=60),
    )

    assert ran.value["text/plain"] == "True"


IN_A_CELL = """
from concurrent.futures import ProcessPoolExecutor
import multiprocessing
def square(x): return x * x
with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context({method!r})) as pool:
    print(*pool.map(square, [3]))
"""


def test_a_function_of_a_cell_that_spawned_processes_do_not_find_has_a_hint_that_helps():
    with gb.Sandbox() as box:
        error = box.run(IN_A_CELL.format(method="spawn")).error
        followed = box.run(IN_A_CELL.format(method="fork"))

    assert "get_context('fork')" in error.hints[0]
    assert followed.stdout == "9\n"
