"""What README.md says to install is enough for the commands of README.md, in a venv that has nothing else.

Packages come from uv's cache or from the index; without either, the tests are skipped and say so.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = sorted(
    {
        line.removeprefix("$ ").partition("  #")[0].strip()
        for block in re.findall(r"^```(?:console|sh)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
        for line in block.splitlines()
        if line.removeprefix("$ ").startswith("groundbox ")
    }
)
ELSEWHERE = {
    "groundbox environment create plots": "needs a package index",
    "groundbox environment create": "builds for minutes; tests/cli/test_environment.py runs it",
    'groundbox ask "Which region sells best?"': "needs a model",
    "groundbox dataset": "needs the extra `data`; tests/dataset runs it",
}
"""Beginnings of commands that are not run here."""
FILES = {
    "analysis.py": "import sys, pandas\nprint(pandas.read_csv('data.csv').shape, sys.argv[1:])",
    "data.csv": "a\n1\n",
    "program.py": "print(6 * 7)",
    "sales.csv": "region,revenue\nnorth,1\n",
}


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The environment variables and the folder of a shell in which the wheel was installed as README.md says."""
    folder = tmp_path_factory.mktemp("first")
    uv = Path(sys.executable).with_name("uv")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder / "dist"]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    [wheel] = (folder / "dist").iterdir()
    python = folder / "venv/bin/python"
    base: str = sys._base_executable  # type: ignore[attr-defined]  # typeshed has it not
    subprocess.run([uv, "venv", "--quiet", "--python", base, folder / "venv"], check=True)
    install = [uv, "pip", "install", "--quiet", "--python", python, f"{wheel}[environments]"]
    if subprocess.run([*install, "--offline"], capture_output=True, check=False).returncode != 0:
        online = subprocess.run(install, capture_output=True, text=True, check=False)
        if online.returncode != 0:
            pytest.skip(f"the wheel's dependencies are neither in uv's cache nor on an index: {online.stderr[-200:]}")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    (folder / "examples").symlink_to(ROOT / "examples")
    environ = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "CI", "GROUNDBOX_ENGINE")
    }
    place = {**environ, "PATH": f"{folder / 'venv/bin'}:{os.environ['PATH']}"}, folder
    yield place
    call(place, "engine stop")


def call(place, line, **options):
    environ, folder = place
    command = [str(folder / "venv/bin/groundbox"), *shlex.split(line)]
    return subprocess.run(command, env=environ, cwd=folder, capture_output=True, text=True, check=False, **options)


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_of_the_readme_works_after_its_installation(installed, line):
    reason = next((why for start, why in ELSEWHERE.items() if line == start or line.startswith(f"{start} ")), None)
    if reason is not None:
        pytest.skip(reason)
    arguments = line.removeprefix("groundbox ")
    fails = 'd["Revenue"]' in line  # the first example shows a failure

    if arguments == "repl":
        ended = call(installed, arguments, input="6 * 7\n")
        assert ended.stdout.strip() == "42"
    else:
        ended = call(installed, arguments, stdin=subprocess.DEVNULL)

    assert ended.returncode == (1 if fails else 0), ended.stderr
    assert "Traceback" not in ended.stderr or fails
    assert "not installed" not in ended.stderr


def test_the_engine_in_the_background_serves_a_second_run_warm(installed):
    first = call(installed, "run -c 6*7")
    second = call(installed, "run -c 6*7")

    assert first.stdout == second.stdout == "42\n"
    assert "cold start" not in second.stderr
    assert call(installed, "engine status").returncode == 0


def test_mcp_and_serve_answer(installed):
    environ, folder = installed
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([folder / "venv/bin/groundbox", "mcp"], env=environ, cwd=folder, **pipes) as mcp:
        mcp.stdin.write('{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
        mcp.stdin.flush()
        assert '"result": {}' in mcp.stdout.readline()
        mcp.stdin.close()
    command = [folder / "venv/bin/groundbox", "serve", "--port", "0"]
    with subprocess.Popen(command, env=environ, cwd=folder, stdout=subprocess.PIPE, text=True) as served:
        assert served.stdout.readline().startswith("http://127.0.0.1:")
        served.terminate()


def test_an_installation_without_the_engine_says_what_is_missing(installed):
    _, folder = installed
    hidden = folder / "venv/lib"
    [starlette] = hidden.glob("python*/site-packages/starlette")
    away = starlette.with_name("starlette.hidden")
    call(installed, "engine stop")
    starlette.rename(away)
    try:
        ran = call(installed, "run -c 6*7")
        started = call(installed, "engine start")
    finally:
        away.rename(starlette)

    assert (ran.returncode, ran.stdout) == (0, "42\n")
    assert "needs starlette, not installed here, so that each call starts cold" in ran.stderr
    assert started.returncode == 3
    assert "needs starlette, not installed here. The extra `environments`" in started.stderr
    assert "Traceback" not in started.stderr
