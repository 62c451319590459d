"""`groundbox run` by the engine in the background: the same results, started once, and gone when nobody needs it."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="the extra `server` is not installed here")

from groundbox.jail import kernel
from groundbox.remote import place

SOURCE = Path(__file__).parents[2] / "src"


class Engine:
    """Commands that share one engine, which nobody else meets because TMPDIR is part of its name."""

    def __init__(self, folder, source=SOURCE):
        self.folder = folder
        self.environ = {name: value for name, value in os.environ.items() if name not in ("CI", "GROUNDBOX_ENGINE")}
        self.environ |= {"TMPDIR": str(folder), "PYTHONPATH": str(source)}

    def told(self, *arguments):
        return [sys.executable, "-m", "groundbox", *map(str, arguments)]

    def command(self, *arguments, **options):
        options = {"capture_output": True, "text": True, "timeout": 120, **options}
        return subprocess.run(self.told(*arguments), env=self.environ, cwd=self.folder, **options)

    def begin(self, *arguments):
        return subprocess.Popen(
            self.told(*arguments), env=self.environ, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def status(self):
        return json.loads(self.command("engine", "status", "--json").stdout)


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    made = Engine(tmp_path_factory.mktemp("engine"))
    yield made
    made.command("engine", "stop")


def until(condition, seconds=10):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


def test_the_first_run_starts_it_and_the_next_one_finds_it_warm(engine):
    first = engine.command("run", "-c", "print(6 * 7)")
    pid = engine.status()["pid"]
    second = engine.command("run", "-c", "print(6 * 7)")

    assert (first.stdout, first.returncode) == ("42\n", 0)
    assert "warm start" in second.stderr
    assert engine.status()["pid"] == pid


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ["-c", "import sys\nprint('out')\nprint('err', file=sys.stderr)\n'value'"],
        ["-c", "1 / 0"],
        ["-c", "import sys\nprint(sys.argv, input())", "--stdin", "in.txt", "--", "a", "b"],
        ["-c", "open('out.txt', 'w').write(open('in.txt').read())", "--file", "in.txt", "--out", "made"],
        ["-c", "SELECT 1 AS a", "--language", "sql"],
        ["-c", "echo hi; exit 3", "--language", "shell"],
        ["-c", "while True: pass", "--wall-s", "0.5"],
        ["-c", "1", "--language", "cobol"],
        ["-c", "1", "--file", "nothing"],
        ["-c", "1", "--environment", "nothing"],
        ["-c", "a = 1\nprint(a)", "--trace", "trace.jsonl"],
        ["-c", "import urllib.request as u\nu.urlopen('http://example.org')", "--allow-host", "example.com"],
    ],
)
def test_results_are_those_of_a_run_without_it(engine, arguments):
    (engine.folder / "in.txt").write_text("line\n")

    with_it = engine.command("run", *arguments)
    written = {path.name: path.read_bytes() for path in engine.folder.glob("made/*")}
    without = engine.command("run", "--no-engine", *arguments)

    assert (with_it.returncode, with_it.stdout) == (without.returncode, without.stdout)
    assert without_figures(with_it.stderr) == without_figures(without.stderr)
    assert written == {path.name: path.read_bytes() for path in engine.folder.glob("made/*")}


def test_json_has_the_same_keys(engine):
    with_it = json.loads(engine.command("run", "--json", "-c", "print(1)").stdout)
    without = json.loads(engine.command("run", "--no-engine", "--json", "-c", "print(1)").stdout)

    assert list(with_it) == list(without)
    assert with_it["stdout"] == without["stdout"] == "1\n"


def test_ctrl_c_interrupts_the_program_whose_finally_runs(engine):
    program = "import time\ntry:\n    print('begun', flush=True)\n    time.sleep(60)\nfinally:\n    print('ended')"
    process = engine.begin("run", "-c", program)
    assert process.stdout.readline() == b"begun\n"

    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)

    assert (out, process.returncode) == (b"ended\n", 130)


def test_a_program_that_heeds_no_interrupt_is_given_up(engine):
    stubborn = "        print('begun', flush=True)\n        while True: pass\n"
    program = f"while True:\n    try:\n{stubborn}    except BaseException: pass"
    process = engine.begin("run", "-c", program)
    process.stdout.readline()

    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)

    assert process.returncode == 143
    assert until(lambda: engine.status()["runs_running"] == 0)


def test_a_client_that_is_killed_frees_what_it_held(engine):
    process = engine.begin("run", "-c", "print('begun', flush=True)\nwhile True: pass")
    process.stdout.readline()

    process.kill()
    process.communicate()

    assert until(lambda: engine.status()["runs_running"] == 0, 3)
    assert until(lambda: engine.status()["sandboxes"] == 0, 15)


def test_an_engine_that_is_killed_is_told_and_the_next_run_starts_another(tmp_path):
    engine = Engine(tmp_path)
    process = engine.begin("run", "-c", "print('begun', flush=True)\nwhile True: pass")
    process.stdout.readline()
    pid = engine.status()["pid"]

    os.kill(pid, signal.SIGKILL)
    _, told = process.communicate(timeout=30)
    after = engine.command("run", "-c", "print(1)")
    other = engine.status()["pid"]
    engine.command("engine", "stop")

    assert process.returncode == 3
    assert b"the engine in the background: it hung up" in told
    assert after.stdout == "1\n"
    assert other != pid


def test_it_does_not_outlive_an_update_of_its_code(tmp_path):
    shutil.copytree(SOURCE / "groundbox", tmp_path / "src" / "groundbox")
    engine = Engine(tmp_path, tmp_path / "src")
    engine.command("run", "-c", "1")
    before = engine.status()["pid"]

    (tmp_path / "src" / "groundbox" / "errors.py").touch()
    time.sleep(1.5)
    ran = engine.command("run", "-c", "print(1)")
    after = engine.status()["pid"]
    engine.command("engine", "stop")

    assert ran.stdout == "1\n"
    assert after != before
    assert until(lambda: not os.path.exists(f"/proc/{before}"))


def test_where_it_cannot_start_programs_run_without_it_and_it_is_said(tmp_path):
    shutil.copytree(SOURCE / "groundbox", tmp_path / "src" / "groundbox")
    (tmp_path / "src" / "groundbox" / "server" / "application.py").write_text("raise OSError('broken on purpose')")
    engine = Engine(tmp_path, tmp_path / "src")

    ran = engine.command("run", "-c", "print(1)")

    assert (ran.returncode, ran.stdout) == (0, "1\n")
    assert "the engine in the background: it did not start" in ran.stderr
    assert "broken on purpose" in ran.stderr
    assert "this program runs without it" in ran.stderr


@pytest.mark.parametrize("kind", ["sock.lock", "log"])
def test_it_writes_to_nothing_that_a_link_in_its_folder_leads_to(tmp_path, monkeypatch, kind):
    engine = Engine(tmp_path)
    victim = tmp_path / "victim"
    victim.write_text("as it was")
    monkeypatch.setattr(os, "environ", {**os.environ, **engine.environ})
    link = Path(place.path_of(kind))
    link.symlink_to(victim)

    ran = engine.command("run", "-c", "print(1)")
    link.unlink()

    assert (ran.returncode, ran.stdout) == (0, "1\n")
    assert f"'{link}' cannot be opened" in ran.stderr
    assert victim.read_text() == "as it was"


def test_it_ends_when_nobody_needs_it(tmp_path):
    engine = Engine(tmp_path)

    ended = engine.command("engine", "serve", "--idle-s", "1")

    assert ended.returncode == 0
    assert engine.status() == {"running": False}


@pytest.mark.slow
def test_a_conversation_is_the_same_in_it(engine):
    recording = Path(__file__).parents[2] / "examples" / "conversations" / "mended_error.jsonl"

    before = engine.status().get("runs", 0)
    with_it = engine.command("ask", "--replay", recording, "--json")
    ran_there = engine.status()["runs"] - before
    without = engine.command("ask", "--replay", recording, "--json", "--no-engine")

    assert ran_there > 0
    assert engine.status()["sandboxes"] == 0
    assert told_by(with_it.stdout) == told_by(without.stdout)
    assert any(line["observation"] for line in told_by(with_it.stdout))


def test_cells_of_sql_share_a_sandbox_there_until_the_command_ends(engine):
    cells = "CREATE TABLE t (a INTEGER);\nINSERT INTO t VALUES (7);\nSELECT a FROM t;\n"
    before = engine.status().get("runs", 0)

    ran = engine.command("repl", "--language", "sql", input=cells)

    assert (ran.returncode, ran.stdout.split()[-1] == "column)", "7" in ran.stdout.split()) == (0, True, True)
    assert engine.status()["runs"] - before == 3
    assert until(lambda: engine.status()["sandboxes"] == 0)


@pytest.mark.skipif(kernel.MACHINE != "x86_64", reason="live sandboxes are copied on x86_64 only")
def test_a_prompt_that_keeps_states_makes_its_sandbox_by_itself(engine):
    cells = "CREATE TABLE t AS SELECT 7 AS a;\nDROP TABLE t;\n%undo\nSELECT a FROM t;\n"
    before = engine.status().get("runs", 0)

    ran = engine.command("repl", "--undo", "--language", "sql", input=cells)

    assert (ran.returncode, ran.stderr) == (0, "groundbox: as before `DROP TABLE t;`\n")
    assert ("7" in ran.stdout.split(), engine.status().get("runs", 0)) == (True, before)


@pytest.mark.slow
def test_a_client_of_mcp_outlives_an_engine_that_is_killed_and_is_told(tmp_path):
    engine = Engine(tmp_path)
    (tmp_path / "given.txt").write_text("given")
    with McpClient(engine, "--file", "given.txt") as client:
        first = client.run("x = 1; x")
        os.kill(engine.status()["pid"], signal.SIGKILL)
        killed = client.run("x")
        after = client.run("('x' in globals(), open('given.txt').read())")
    engine.command("engine", "stop")

    assert "\n1\n" in first["result"]["content"][0]["text"]
    assert "the next program runs in a fresh sandbox" in killed["error"]["message"]
    assert "\n(False, 'given')\n" in after["result"]["content"][0]["text"]


class McpClient:
    """Speaks the protocol's lines to `groundbox mcp`, one request at a time."""

    def __init__(self, engine, *arguments):
        told = engine.told("mcp", *arguments)
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(told, env=engine.environ, cwd=engine.folder, **pipes)
        self.count = 0
        about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        self.ask("initialize", about)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def send(self, message):
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def ask(self, method, parameters):
        self.count += 1
        self.send({"jsonrpc": "2.0", "id": self.count, "method": method, "params": parameters})
        while (answer := json.loads(self.process.stdout.readline())).get("id") != self.count:
            pass
        return answer

    def run(self, code):
        return self.ask("tools/call", {"name": "run_code", "arguments": {"code": code}})


def told_by(stdout):
    """Events of a conversation, with what the model is shown of runs, and without figures that differ each time."""
    lines = [json.loads(line) for line in stdout.splitlines()]
    names = ("event", "run", "verdict", "observation", "answer", "unsupported")
    return [{name: line.get(name) for name in names} for line in lines]


def test_programs_ask_it_as_a_server(engine):
    program = "import groundbox as gb\nwith gb.connect('engine') as there: print(there.run('6 * 7').text)"

    ran = subprocess.run([sys.executable, "-c", program], env=engine.environ, capture_output=True, text=True)

    assert (ran.stdout, ran.stderr) == ("42\n", "")
    assert engine.status()["runs"] > 0


def python(engine, program, **environ):
    """What a fresh Python prints, and what it logs."""
    command = [sys.executable, "-c", f"import groundbox as gb\n{program}"]
    ran = subprocess.run(command, env={**engine.environ, **environ}, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip(), ran.stderr


def test_a_python_program_uses_it_by_default_for_what_it_can_do(engine):
    engine.command("engine", "start")
    before = engine.status()["runs"]
    program = (
        "import asyncio, copy, pickle\n"
        "first = gb.run('print(6 * 7)')\n"
        "second = asyncio.run(gb.run_async('open(\"a\").read()', files={'a': 'x'}, env={'A': '1'}))\n"
        "third = gb.run('1 / 0')\n"
        "cut = gb.run('print(\"a\" * 9000)', limits=gb.Limits(output_bytes=1000))\n"
        "same = all(pickle.loads(pickle.dumps(e)) == copy.deepcopy(e) == e for e in (first, second, third, cut))\n"
        "whole = len(pickle.loads(pickle.dumps(cut)).outputs['stdout'].read())\n"
        "print(first.stdout.strip(), second.text, third.error.type, type(third.error.hints), same, whole)"
    )

    told = python(engine, program)

    assert told == ("42 'x' ZeroDivisionError <class 'tuple'> True 9001", "")
    assert engine.status()["runs"] - before == 4


def test_what_needs_the_process_itself_stays_there(engine):
    engine.command("engine", "start")
    before = engine.status()["runs"]
    program = (
        "def double(n: int) -> int:\n    'Twice n.'\n    return 2 * n\n"
        "gb.run('import tools; tools.double(n=21)', tools=[double])\n"
        "gb.run('1', limits=gb.Limits(wall_s=None))\n"
        "gb.run('def f(x): return x', mode='call', call='f', args=[{1, 2}])\n"
        "gb.run('1', network=gb.Network(allow=['example.org']))\n"
        "gb.run('1', waive=['locks'])\n"
        "gb.run('1', hash_seed=1)\n"
        "gb.run('1', engine='own')\n"
        "with gb.Sandbox() as box: print(box.run('6 * 7').text)"
    )

    assert python(engine, program) == ("42", "")
    assert engine.status()["runs"] == before


def test_a_sandbox_uses_it_if_it_is_told_to(engine):
    engine.command("engine", "start")
    before = engine.status()["runs"]
    program = (
        "with gb.Sandbox(engine='background') as box:\n"
        "    box.run('x = 42'); box.files.write('a', 'b')\n"
        "    print(box.run('x, open(\"a\").read()').text)\n"
        "try: gb.Sandbox(engine='background', tools=[print])\n"
        "except gb.InvalidArgument as refused: print(refused)"
    )

    refused = "tools: are functions of this process, which a server cannot call. engine='own' takes it"
    assert python(engine, program)[0] == f"(42, 'b')\n{refused}"
    assert engine.status()["runs"] - before == 2


def test_a_python_program_says_once_that_the_engine_cannot_be_used(tmp_path):
    engine = Engine(tmp_path)
    (tmp_path / "shadow" / "starlette").mkdir(parents=True)
    (tmp_path / "shadow" / "starlette" / "__init__.py").write_text("raise ImportError('broken')")
    path = f"{tmp_path / 'shadow'}:{engine.environ['PYTHONPATH']}"
    program = "print(gb.run('6 * 7').text, gb.run('6 * 7').text)"

    stdout, stderr = python(engine, program, PYTHONPATH=path)

    assert stdout == "42 42"
    assert stderr.count("the engine in the background: it did not start") == 1


def test_warm_leaves_an_engine_that_has_libraries_loaded(tmp_path):
    engine = Engine(tmp_path)
    program = "gb.warm()\nprint(gb.run('import pandas; 6 * 7').usage.warm)"

    assert python(engine, program) == ("True", "")
    assert engine.status()["runs"] == 2
    engine.command("engine", "stop")


def test_stopping_one_that_does_not_run_is_fine(tmp_path):
    ended = Engine(tmp_path).command("engine", "stop")

    assert (ended.returncode, ended.stderr) == (0, "groundbox: the engine does not run\n")


@pytest.mark.parametrize("name", ["GROUNDBOX_ENGINE=off", "CI=true"])
def test_it_is_not_used_where_that_is_said(tmp_path, name):
    engine = Engine(tmp_path)
    engine.environ.update([name.split("=")])

    engine.command("run", "-c", "1")

    assert engine.status() == {"running": False}


@pytest.mark.skipif(os.geteuid() == 0, reason="root's folder is the machine's")
def test_no_engine_is_started_in_a_folder_that_is_open_to_others(tmp_path):
    engine = Engine(tmp_path)
    engine.environ["XDG_RUNTIME_DIR"] = str(tmp_path)
    folder = tmp_path / "groundbox" / "engine"
    folder.mkdir(parents=True)
    folder.chmod(0o777)

    ran = engine.command("run", "-c", "1")

    assert ran.stdout == "1\n"
    assert "is not this user's alone" in ran.stderr
    assert not [path for path in folder.iterdir() if path.is_socket()]


def without_figures(stderr):
    """Lines without the one of times and memory, which differ from run to run."""
    return [line for line in stderr.splitlines() if " cpu " not in line and "warm" not in line]
