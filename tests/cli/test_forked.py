"""Calls of `groundbox run` that a process forks for, which has imported what they need: they do what they would do."""

import marshal
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="the extra `server` is not installed here")

from groundbox.cli import entry
from tests.cli.test_engine import SOURCE, Engine, until


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    made = Engine(tmp_path_factory.mktemp("forked"))
    made.command("run", "-c", "1")
    assert until(lambda: parent_of(made) is not None)
    yield made
    made.command("engine", "stop")


def parent_of(engine):
    """The process that forks for this engine's calls, or None."""
    pid = engine.status().get("pid")
    for child in children_of(pid) if pid else ():
        told = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
        if b"groundbox.cli.forked" in told and os.path.exists(told[-2]):
            return child
    return None


def children_of(pid):
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def path_of(engine):
    return Path(f"/proc/{parent_of(engine)}/cmdline").read_bytes().split(b"\0")[-2].decode()


def test_a_call_is_carried_out_by_a_fork_and_ends_with_its_caller(engine):
    parent = parent_of(engine)
    process = engine.begin("run", "-c", "print('begun', flush=True)\nwhile True: pass")
    process.stdout.readline()
    forks = children_of(parent)

    process.kill()
    process.communicate()

    assert len(forks) == 1
    assert until(lambda: children_of(parent) == [], 3)
    assert until(lambda: engine.status()["runs_running"] == 0, 3)


def test_folder_umask_environment_and_streams_are_those_of_the_call(engine):
    folder = engine.folder / "elsewhere"
    folder.mkdir()
    (folder / "program.py").write_text("print('é', input())\nopen('out.txt', 'w').write('x')")
    script = 'umask 077; exec "$@"'
    told = ["sh", "-c", script, "sh", *engine.told("run", "program.py", "--stdin", "-", "--out", "made")]

    ran = subprocess.run(told, env=engine.environ, cwd=folder, input=b"line\n", capture_output=True)

    assert (ran.returncode, ran.stdout.decode()) == (0, "é line\n")
    assert (folder / "made" / "out.txt").stat().st_mode & 0o777 == 0o600
    assert children_of(parent_of(engine)) == []


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
def test_a_call_without_one_of_its_streams_is_as_ever(engine, closed):
    told = subprocess.list2cmdline(engine.told("run", "-c", "1 + 1"))
    environ = {**engine.environ, "GROUNDBOX_ENGINE": "off"}

    with_it, without = (
        subprocess.run(f"{told} {closed}", shell=True, env=each, capture_output=True, text=True)
        for each in (engine.environ, environ)
    )

    assert (with_it.returncode, with_it.stdout) == (without.returncode, without.stdout)


def test_an_interpreter_that_was_started_otherwise_does_the_work_itself(engine):
    environ = {**engine.environ, "PYTHONIOENCODING": "latin-1"}

    ran = subprocess.run(engine.told("run", "-c", "print('é')"), env=environ, capture_output=True)

    assert ran.stdout == b"\xe9\n"


def test_a_reader_that_has_gone_and_an_exit_code_are_told(engine):
    told = subprocess.list2cmdline(engine.told("run", "-c", "for i in range(100000): print(i)"))

    gone = subprocess.run(
        ["bash", "-c", f"{told} | head -1; exit ${{PIPESTATUS[0]}}"],
        env=engine.environ,
        capture_output=True,
        text=True,
        cwd=engine.folder,
    )
    failed = engine.command("run", "-c", "1 / 0")
    unknown = engine.command("run", "--no-such-option")

    assert (gone.stdout, gone.returncode) == ("0\n", 3)
    assert (failed.returncode, "ZeroDivisionError" in failed.stderr) == (1, True)
    assert (unknown.returncode, "No such option" in unknown.stderr) == (2, True)


def test_a_fork_that_is_killed_is_told_by_its_signal(engine):
    process = engine.begin("run", "-c", "print('begun', flush=True)\nwhile True: pass")
    process.stdout.readline()
    [fork] = children_of(parent_of(engine))

    os.kill(fork, signal.SIGKILL)
    process.communicate(timeout=30)

    assert process.returncode == -signal.SIGKILL


def test_what_the_engine_may_not_do_is_done_by_the_fork(engine):
    ran = engine.command("run", "-c", "print(6 * 7)", "--wall-s", "none")

    assert (ran.returncode, ran.stdout) == (0, "42\n")
    assert until(lambda: children_of(parent_of(engine)) == [])


def test_a_caller_that_gave_up_has_nothing_done_for_it(engine):
    environ = dict(engine.environ)
    marked = engine.folder / "made by nobody"
    argv = ["groundbox", "run", "-c", "1", "--out", str(marked)]
    asked = marshal.dumps((argv, environ, 0o22, [], entry.start()))
    here = os.open(engine.folder, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(path_of(engine))
        socket.send_fds(caller, [len(asked).to_bytes(4, "little")], [0, 1, 2, here])
        caller.shutdown(socket.SHUT_RD)
        caller.sendall(asked)
        assert until(lambda: children_of(parent_of(engine)) == [])
    os.close(here)

    assert not marked.exists()


@pytest.mark.parametrize(
    "request_bytes", [b"", b"\0\0", b"\xff\xff\xff\xff", b"\x04\0\0\0junk", b"GET / HTTP/1.1\r\n\r\n"]
)
def test_who_does_not_speak_its_language_is_left_alone(engine, request_bytes):
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(path_of(engine))
        caller.sendall(request_bytes)
        caller.shutdown(socket.SHUT_WR)
        answer = caller.recv(10)

    assert not answer.startswith(entry.STARTED)
    assert until(lambda: children_of(parent_of(engine)) == [])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_another_user_is_not_heard_even_where_the_socket_is_open_to_all(engine, tmp_path):
    path = path_of(engine)
    program = (
        "import os, socket, sys\nos.setuid(65534)\nlink = socket.socket(socket.AF_UNIX)\n"
        "link.connect(f'/proc/self/fd/{sys.argv[2]}/{sys.argv[1]}')\nlink.sendall(b'x' * 100)\n"
        "link.shutdown(socket.SHUT_WR)\nprint(link.recv(10))"
    )
    folder = os.open(os.path.dirname(path), os.O_PATH)
    os.chmod(path, 0o777)
    try:
        told = [sys.executable, "-c", program, os.path.basename(path), str(folder)]
        heard = subprocess.run(told, pass_fds=[folder], capture_output=True, text=True)
    finally:
        os.chmod(path, 0o600)
        os.close(folder)

    assert heard.stdout == "b''\n" or "Permission denied" in heard.stderr


def test_it_ends_when_a_source_of_its_own_has_changed(tmp_path):
    import shutil

    shutil.copytree(SOURCE / "groundbox", tmp_path / "src" / "groundbox")
    engine = Engine(tmp_path, tmp_path / "src")
    engine.command("run", "-c", "1")
    assert until(lambda: parent_of(engine) is not None)
    before = parent_of(engine)
    program = tmp_path / "src" / "groundbox" / "cli" / "run.py"
    program.write_text(program.read_text() + "\nimport sys\nprint('the new code', file=sys.stderr)\n")

    ran = engine.command("run", "-c", "print(1)")
    engine.command("engine", "stop")

    assert (ran.stdout, "the new code" in ran.stderr) == ("1\n", True)
    assert until(lambda: not os.path.exists(f"/proc/{before}"))


def test_it_ends_with_its_engine(tmp_path):
    engine = Engine(tmp_path)
    engine.command("run", "-c", "1")
    assert until(lambda: parent_of(engine) is not None)
    before, path = parent_of(engine), path_of(engine)

    os.kill(engine.status()["pid"], signal.SIGKILL)

    assert until(lambda: not os.path.exists(f"/proc/{before}") or "Z" in state_of(before))
    assert not os.path.exists(path)


def state_of(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def test_what_a_call_imports_is_the_interpreters_own():
    program = (
        "import sys; before = set(sys.modules)\n"
        "import groundbox.cli.entry, groundbox.remote.place, marshal, _signal, _socket, _blake2\n"
        "print(*sorted(set(sys.modules) - before))"
    )

    told = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True)

    assert set(told.stdout.split()) <= {
        *("_blake2", "_signal", "_socket", "marshal", "groundbox", "groundbox.cli", "groundbox.cli.entry"),
        *("groundbox.remote", "groundbox.remote.place", "__future__"),
    }


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: to have files of its own")
def test_a_call_whose_paths_mean_other_files_does_the_work_itself(engine):
    inside = engine.folder / "elsewhere of its own"
    inside.mkdir()
    program = f"mount -t tmpfs none '{inside}' && cd '{inside}' && echo 'print(7)' > own.py && exec \"$@\""
    told = ["unshare", "--mount", "sh", "-c", program, "sh", *engine.told("run", str(inside / "own.py"))]

    ran = subprocess.run(told, env=engine.environ, capture_output=True, text=True)

    assert (ran.returncode, ran.stdout) == (0, "7\n")
