"""A command that is ended from outside, or has nowhere to write: one line, nothing left, what was done is kept."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from groundbox.testing.base import until

ROOT = Path(__file__).parents[2]
RECORDING = ROOT / "examples/conversations/mended_error.jsonl"
TIDY = (
    "try:\n    print('begun', flush=True)\n    import time; time.sleep(60)\nfinally:\n    print('tidied', flush=True)\n"
)
DEAF = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('begun', flush=True)\nwhile True: pass\n"
INITIALIZE = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


@pytest.fixture(autouse=True)
def _without_the_engine(monkeypatch):
    """Count an engine in the background, which outlives its commands, for no process that was left."""
    monkeypatch.setenv("GROUNDBOX_ENGINE", "off")


@pytest.fixture
def started(scratch, tmp_path):
    """Start `groundbox` as a terminal does: in a process group of its own, which Ctrl-C goes to."""
    processes = []

    def start(*arguments):
        process = subprocess.Popen(
            [sys.executable, "-m", "groundbox", *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "TMPDIR": str(scratch)},
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            with contextlib.suppress(OSError):
                stream.close()


def ended(process, number):
    """The exit status and what was said, after a signal to the group."""
    os.killpg(process.pid, number)
    stdout, stderr = process.communicate(timeout=60)
    return process.returncode, stdout, stderr.splitlines()


@pytest.mark.parametrize(("number", "words"), [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "ended by SIGTERM")])
@pytest.mark.parametrize("mode", ["cell", "script"])
def test_a_program_that_is_interrupted_runs_its_finally(started, nothing_left, mode, number, words):
    process = started("run", "-c", TIDY, "--mode", mode)
    assert process.stdout.readline() == "begun\n"

    code, stdout, said = ended(process, number)

    assert (code, stdout) == (128 + number, "tidied\n")
    assert said[-1] == f"groundbox: {words}"
    assert said[-2].startswith("groundbox: cancelled" if mode == "cell" else "groundbox: signal (SIGINT)")
    assert nothing_left(process.pid) is True


def test_files_made_before_an_interrupt_are_written(started, tmp_path):
    process = started("run", "-c", "open('kept.txt', 'w').write('kept')\n" + TIDY, "--out", "out")
    assert process.stdout.readline() == "begun\n"

    code, _, _ = ended(process, signal.SIGINT)

    assert code == 130
    assert (tmp_path / "out/kept.txt").read_text() == "kept"


def test_a_prompt_that_waits_for_a_pipe_is_ended(started, nothing_left):
    process = started("repl")
    process.stdin.write("6 * 7\n")
    process.stdin.flush()
    assert process.stdout.readline() == "42\n"
    until(lambda: b"pipe_read" in Path(f"/proc/{process.pid}/wchan").read_bytes())

    code, _, said = ended(process, signal.SIGINT)

    assert (code, said[-1]) == (130, "groundbox: interrupted")
    assert nothing_left(process.pid) is True


def test_a_program_that_does_not_heed_an_interrupt_is_ended_soon(started, nothing_left):
    process = started("run", "-c", DEAF)
    assert process.stdout.readline() == "begun\n"

    code, _, said = ended(process, signal.SIGINT)

    assert (code, said) == (130, ["groundbox: interrupted"])
    assert nothing_left(process.pid) is True


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_server_says_in_a_line_that_it_was_ended(started, nothing_left, number):
    process = started("mcp")
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE}
    process.stdin.write(json.dumps(request) + "\n")
    process.stdin.flush()
    process.stdout.readline()

    code, _, said = ended(process, number)

    assert (code, len(said)) == (128 + number, 1)
    assert nothing_left(process.pid) is True


def test_a_dataset_that_is_interrupted_says_that_it_goes_on(started, nothing_left, tmp_path):
    process = started("dataset", "build", ROOT / "examples/problems/plain.jsonl", "--out", "dataset")
    while not (tmp_path / "dataset/.shards/manifest.json").exists():
        assert process.poll() is None

    code, _, said = ended(process, signal.SIGINT)

    mend = "What was done is kept in dataset; the same command goes on from there."
    assert (code, said) == (130, [f"groundbox: interrupted. {mend}"])
    assert nothing_left(process.pid) is True


def test_a_template_that_nobody_waits_for_any_more_is_ended_at_once(started, nothing_left):
    process = started("run", "-c", TIDY)
    while not _children(process.pid):
        assert process.poll() is None

    code, stdout, said = ended(process, signal.SIGTERM)

    assert (code, stdout, said) == (143, "", ["groundbox: ended by SIGTERM"])
    assert nothing_left(process.pid) is True


COMMANDS: dict[str, Any] = {
    "help": ["--help"],
    "help of a command": ["run", "--help"],
    "version": ["--version"],
    "run": ["run", "-c", "print(1)"],
    "run --json": ["run", "-c", "1", "--json"],
    "trace": ["trace", "PROGRAM"],
    "ask": ["ask", "--replay", RECORDING],
    "languages": ["languages"],
    "environment list": ["environment", "list"],
    "doctor": ["doctor"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_reader_that_has_gone_gets_no_complaint(name, started, nothing_left, tmp_path):
    (tmp_path / "program.py").write_text("x = 1\n")
    process = started(*("program.py" if each == "PROGRAM" else each for each in COMMANDS[name]))
    process.stdin.close()
    process.stdout.close()

    said = process.stderr.read()

    assert process.wait() == 3
    assert "BrokenPipe" not in said
    assert "a fault of groundbox" not in said
    assert nothing_left(process.pid) is True


@pytest.mark.parametrize("name", ["help", "run", "run --json", "languages", "environment list"])
def test_output_that_finds_no_room_is_told_in_a_line(name, tmp_path):
    with open("/dev/full", "wb") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "groundbox", *COMMANDS[name]], stdout=full, stderr=subprocess.PIPE, text=True
        )

    assert ran.returncode == 3
    assert ran.stderr.splitlines()[-1] == "groundbox: stdout cannot be written: No space left on device"
    assert "Traceback" not in ran.stderr


@pytest.fixture
def small_disk(tmp_path):
    """A folder on a disk of 64 KiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], check=True)
    yield folder
    subprocess.run(["umount", folder], check=True)


LARGE = "open('large.bin', 'wb').write(b'x' * 300_000)\nopen('small.txt', 'w').write('kept')\nprint('done')"


@pytest.mark.needs_root
def test_a_full_disk_costs_the_file_that_does_not_fit_and_nothing_else(command, small_disk):
    ran = command("run", "-c", LARGE, "--out", small_disk / "out")

    assert (ran.code, ran.stdout) == (3, "done\n")
    assert "large.bin" in ran.stderr
    assert "NOT WRITTEN: No space left on device" in ran.stderr
    assert {path.name: path.read_text() for path in (small_disk / "out").iterdir()} == {"small.txt": "kept"}


@pytest.mark.needs_root
def test_a_trace_that_does_not_fit_leaves_the_one_before_and_the_result(command, small_disk):
    before = small_disk / "trace.jsonl"
    before.write_text("the one before\n")

    ran = command("run", "-c", "for i in range(3000):\n    x = [i] * 20\nprint(x[0])", "--trace", before)

    assert (ran.code, ran.stdout) == (3, "2999\n")
    assert ran.stderr.startswith(f"groundbox: --trace: '{before}' cannot be written: No space left on device\n")
    assert [(path.name, path.read_text()) for path in small_disk.iterdir()] == [("trace.jsonl", "the one before\n")]


@pytest.mark.needs_root
def test_a_dataset_on_a_full_disk_says_that_it_goes_on(command, small_disk):
    ran = command("dataset", "build", ROOT / "examples/problems/everyday.jsonl", "--out", small_disk)

    assert ran.code == 3
    assert ran.stderr == (
        f"groundbox: --out: '{small_disk}' cannot be written: No space left on device. "
        f"What was done is kept in {small_disk}; the same command goes on from there.\n"
    )


@pytest.mark.needs_root
def test_a_conversation_on_a_full_disk_keeps_whole_lines(command, small_disk):
    (small_disk / "fill").write_bytes(bytes(60 * 1024))

    ran = command("ask", "--replay", RECORDING, "--save", small_disk / "saved.jsonl")

    assert ran.code == 3
    assert ran.stderr.splitlines()[-1] == (
        f"groundbox: --save: '{small_disk}/saved.jsonl' cannot be written: No space left on device"
    )
    lines = (small_disk / "saved.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines]


@pytest.mark.needs_root
@pytest.mark.parametrize("before", [None, "the one before\n"])
def test_the_page_of_a_conversation_on_a_full_disk_is_whole_or_not_there(command, small_disk, before):
    (small_disk / "fill").write_bytes(bytes(60 * 1024))
    page = small_disk / "page.html"
    if before is not None:
        page.write_text(before)

    ran = command("ask", "--replay", RECORDING, "--html", page, "--out", command.folder / "out")

    assert ran.code == 3
    assert ran.stderr.splitlines()[-1] == f"groundbox: --html: '{page}' cannot be written: No space left on device"
    left = {path.name: path.read_text() for path in small_disk.iterdir() if path.name != "fill"}
    assert left == ({} if before is None else {page.name: before})


def _children(pid):
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


@pytest.mark.parametrize(
    ("closed", "arguments", "code", "shown"),
    [
        (">&-", "run -c 'print(6 * 7)'", 0, ""),
        ("2>&-", "run -c 'print(6 * 7)'", 0, "42\n"),
        ("<&-", "run -c 'print(6 * 7)'", 0, "42\n"),
        ("<&-", "run -", 2, "the program is empty"),
        ("<&- 2>&-", "run -c '1 / 0'", 1, ""),
        (">&- 2>&-", "languages", 0, ""),
    ],
)
def test_a_stream_that_is_closed_is_no_fault(scratch, tmp_path, closed, arguments, code, shown):
    ran = subprocess.run(
        ["/bin/sh", "-c", f"exec {sys.executable} -m groundbox {arguments} {closed}"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(scratch)},
    )

    told = ran.stdout + ran.stderr
    assert (ran.returncode, shown in told, "fault of groundbox" in told) == (code, True, False), told
