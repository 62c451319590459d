"""Each test of a tracer runs on every interpreter and core that there is here, and compares in a short notation.

`1:a=1 2: 4:b=4` is three lines of one frame, with what each did. `{2 f x=1` is a call, `->5}` its return, `!}` the end
by an exception, `~5}` a yield and `{2` what goes on after it. `#1` is an object: `#1=list[1, 2]` describes it,
`#1.set[0, 9]` changes it. A name of another scope bears it: `x@global=1`.
Records of tests and iterations are left out but by `told`: `?1.3-1.8=true` is a test of what stands from
line 1, column 3 to line 1, column 8, `@2#1` the first
iteration of the loop at line 2, with `=5` where its item is told, and `@2.3` its end after three, with no further item or its condition false.
Interpreters are this one, and those of pyenv.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from groundbox.guest.trace.native import build
from tests.tracers import built

ROOT = Path(__file__).parents[3]
_RUNNER = Path(__file__).with_name("runner.py")
_PYENV = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"


class Traced(NamedTuple):
    """What came of one program."""

    data: bytes
    stdout: str
    stderr: str
    status: int

    @property
    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.data.splitlines()]

    @property
    def short(self) -> str:
        return short([record for record in self.records if record["k"] not in _TOLD])

    @property
    def told(self) -> str:
        """With tests and iterations."""
        return short(self.records)


_TOLD = ("test", "iteration", "ended")


class Tracer:
    """One core on one interpreter, in a process of its own."""

    def __init__(self, python: str, core: str, native: str = "") -> None:
        """Args:
        native: File of the core in C, built for this interpreter.
        """
        self.core = core
        self._native = native
        self.version = version_of(python)
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        self._process = subprocess.Popen(
            [python, str(_RUNNER), str(ROOT / "src")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def __call__(self, source: str, *, bytes: int = 1 << 22, **options: int) -> Traced:
        """Trace a program as `__main__`, and wait for its end."""
        order = {"source": source, "core": self.core, "native": self._native, "options": options, "bytes": bytes}
        return self._ask(order)

    def plain(self, source: str) -> Traced:
        """Run a program in the same way, without a tracer."""
        return self._ask({"source": source, "core": "none", "options": {}, "bytes": 0})

    def _ask(self, order: dict[str, Any]) -> Traced:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        told = json.loads(self._process.stdout.readline())
        return Traced(base64.b64decode(told["records"]), told["stdout"], told["stderr"], told["status"])

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.kill()  # a child of another test may still hold the other end of its pipe
        self._process.wait()


def version_of(python: str) -> tuple[int, int]:
    told = subprocess.run(
        [python, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, text=True, check=True
    )
    major, minor = told.stdout.split()
    return int(major), int(minor)


def interpreters() -> dict[str, str]:
    """By version: this interpreter, and those of pyenv that guests may have."""
    found = {f"{sys.version_info[0]}.{sys.version_info[1]}": sys.executable}
    for version in ("3.11", "3.12", "3.13"):
        for folder in sorted(_PYENV.glob(f"{version}.*")):
            if (folder / "bin" / "python").exists():
                found.setdefault(version, str(folder / "bin" / "python"))
    return dict(sorted(found.items()))


def tracers() -> list[tuple[str, str, str]]:
    """Name, interpreter and core."""
    found = []
    for version, python in interpreters().items():
        found += [(f"{version}-{core}", python, core) for core in ("native", "plain")]
    return found


def short(records: list[dict[str, Any]]) -> str:
    """All records, in the short notation."""
    words: list[str] = []
    glued = False
    for record in records:
        word = _word(record)
        if glued and record["k"] not in ("line", "return", "unwind", "yield", "call", "resume", "end"):
            words[-1] += word
        else:
            words.append(word)
        glued = record["k"] == "line"
    return " ".join(words)


def _word(record: dict[str, Any]) -> str:
    kind = record["k"]
    if kind == "call":
        args = "".join(f" {name}={_value(value)}" for name, value in record.get("args", {}).items())
        return f"{{{record['f']} {record['name']}{args}"
    if kind in ("set", "del"):
        scope = f"@{record['scope']}" if "scope" in record else ""
        return f"{record['name']}{scope}={_value(record['v'])}" if kind == "set" else f"del {record['name']}{scope}"
    if kind == "object":
        return f"#{record['id']}={record.get('class', record['type'])}{_rest(record, 'id', 'class', 'type')}"
    if kind == "mutate":
        return f"#{record['id']}.{record['op']}{_rest(record, 'id', 'op')}"
    if kind == "raise":
        source = f" from {record['from']}" if "from" in record else ""
        return f"raise {record['type']}({', '.join(map(_value, record['args']))}){source}"
    if kind == "fold":
        counts = {name: count for name, count in record.items() if name not in ("k", "f", "n", "what")}
        return f"fold {record['what']} {record['n']} {' '.join(f'{name}={count}' for name, count in counts.items())}"
    return _short_word(record, kind)


def _short_word(record: dict[str, Any], kind: str) -> str:
    words = {
        "test": lambda: "?{}.{}-{}.{}={}".format(*record["at"], _value(record["v"])),
        "iteration": lambda: (
            f"@{record['n']}#{record['number']}" + "".join(f"={_value(v)}" for v in record.get("items", ()))
        ),
        "ended": lambda: f"@{record['n']}.{record['iterations']}",
        "line": lambda: f"{record['n']}:",
        "return": lambda: f"->{_value(record['v'])}}}",
        "yield": lambda: f"~{_value(record['v'])}}}",
        "resume": lambda: f"{{{record['f']}",
        "unwind": lambda: "!}",
        "out": lambda: f"out{record['s']} {_value(record['text'])}",
        "lost": lambda: f"lost {record['why']}",
        "end": lambda: "end",
    }
    return words[kind]()


def _rest(record: dict[str, Any], *known: str) -> str:
    fields = [(name, value) for name, value in record.items() if name not in ("k", *known)]
    return "".join(
        _value(value) if name in ("items", "pairs", "attrs", "at", "hex") else f" {name}={_value(value)}"
        for name, value in fields
    )


def _value(value: Any) -> str:
    if isinstance(value, dict):
        if value.keys() == {"ref"}:
            return f"#{value['ref']}"
        return "{" + ", ".join(f"{name}: {_value(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


_TRACERS = {name: (python, core) for name, python, core in tracers()}
_STARTED: dict[str, Tracer] = {}


def _started(name: str, folder: Path) -> Tracer:
    if name not in _STARTED:
        python, core = _TRACERS[name]
        made = built(python, folder) if core == "native" else ""
        if isinstance(made, build.NotBuilt):
            pytest.skip(made.reason)
        _STARTED[name] = Tracer(python, core, str(made))
    return _STARTED[name]


@pytest.fixture(scope="session")
def pythons() -> dict[str, str]:
    """Interpreters by version."""
    return interpreters()


@pytest.fixture(scope="session")
def native(built_here: Path) -> Callable[[str], Path | build.NotBuilt]:
    """The core in C for an interpreter."""
    return lambda python: built(python, built_here)


@pytest.fixture(scope="session")
def built_here(pytestconfig: pytest.Config) -> Path:
    """A folder for cores in C."""
    return pytestconfig.cache.mkdir("tracers")


@pytest.fixture(params=_TRACERS)
def trace(request: pytest.FixtureRequest, built_here: Path) -> Tracer:
    """One of the tracers: call it with a source."""
    return _started(request.param, built_here)


@pytest.fixture(params=[name for name, (_, core) in _TRACERS.items() if core == "native"])
def folding(request: pytest.FixtureRequest, built_here: Path) -> Tracer:
    """One of the tracers that fold: the plain core does not."""
    return _started(request.param, built_here)


@pytest.fixture
def by_version(built_here: Path) -> dict[tuple[int, int], list[Tracer]]:
    """All tracers, by the version of the interpreter."""
    found: dict[tuple[int, int], list[Tracer]] = {}
    for tracer in (_started(name, built_here) for name in _TRACERS):
        found.setdefault(tracer.version, []).append(tracer)
    return found


@pytest.fixture(scope="session", autouse=True)
def _close() -> Iterator[None]:
    yield
    for tracer in _STARTED.values():
        tracer.close()
    _STARTED.clear()
