"""JavaScript: cells with state and scripts, in Node.

Cells are evaluated by a driver (javascript_driver.js) in one process, which the sandbox keeps; scripts are run by
a Node of their own. There is no npm: what can be loaded is what Node brings, and files of the workdir.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import signal
from pathlib import Path
from typing import Any, Final

from groundbox.errors import InvalidArgument
from groundbox.execution import Execution, Failure, Outcome
from groundbox.runtimes.files import check_filename, without_program
from groundbox.sandbox.languages import Needs, Program, SelfTest

MODES: Final = ("cell", "script")
EXTENSION: Final = ".js"
NEEDS: Final = Needs("node", "apt install nodejs (18 or newer), so that it lies below /usr")
SELF_TEST: Final = SelfTest(
    source="const { EOL } = await import('node:os'); process.stdout.write([1, 2].map(x => x * 21).join() + EOL)",
    mode="cell",
    prints="21,42\n",
)
_DRIVER: Final = Path(__file__).with_name("javascript_driver.js")
_MODULE: Final = re.compile(r"^(?:import\s*[\w{*'\"]|export\s|await\s)", re.MULTILINE)
_UNCAUGHT: Final = re.compile(r"^(?:Uncaught )?([A-Za-z_$][\w$]{0,99})(?: \[[^\]\n]*\])?: (.*)$", re.MULTILINE)
_TAIL: Final = 20_000
_HEAP_FULL: Final = "JavaScript heap out of memory"
_HEAP_HINT: Final = "Node ended itself at the limit of its heap: work on the data in pieces."


def profile(source: str) -> str:
    """`node`: no Python runs in it, and a driver is waiting."""
    return "node"


def resident() -> dict[str, Any]:
    """The process that keeps the state of cells."""
    return {"name": "javascript", "argv": ["node", "-e", _driver()]}


def order(program: Program) -> dict[str, Any]:
    """The order for the worker; argv and stdin belong to scripts."""
    if program.mode == "cell":
        for name, given in (("argv", bool(program.argv)), ("stdin", program.stdin is not None)):
            if given:
                raise InvalidArgument(name, "belongs to a script; add mode='script'")
        shared = {"source": program.source, "filename": program.filename}
        return {"op": "run", "mode": "resident", "resident": resident(), **shared}
    if program.mode != "script":
        raise InvalidArgument("mode", f"{program.mode!r} is neither 'cell' nor 'script'")
    name = _filename(program)
    file = {"name": name, "text": program.source, "where": "workdir"}
    return {"op": "run", "mode": "command", "argv": ["node", {"place": name}, *program.argv], "file": file}


def finish(program: Program, execution: Execution, studied: None) -> Execution:
    """Tell a script's uncaught error, which Node prints, as a failure; and that a heap was full."""
    if execution.exit_signal == signal.SIGABRT and _HEAP_FULL in execution.stderr and execution.error:
        return dataclasses.replace(execution, error=dataclasses.replace(execution.error, hints=(_HEAP_HINT,)))
    if program.mode != "script":
        return execution
    named = dataclasses.replace(program, filename=_filename(program))
    execution = without_program(named, execution)
    if execution.outcome is not Outcome.ERROR or execution.exit_code != 1:
        return execution
    failure = _failure(named.filename, execution.stderr[-_TAIL:])
    return dataclasses.replace(execution, error=failure) if failure else execution


def _filename(program: Program) -> str:
    """The program's name; one that nobody chose says whether it is a module, as Node goes by it."""
    name = check_filename(program.filename)
    if name == "main.js" and _MODULE.search(program.source) and "require(" not in program.source:
        return "main.mjs"
    return name


def _failure(filename: str, stderr: str) -> Failure | None:
    """What Node's last words say: where it was, the line, what was thrown, and its frames."""
    name = re.escape(filename)
    starts = list(re.finditer(rf"^(?:file://)?/\S*/{name}:(\d{{1,9}})$", stderr, re.MULTILINE))
    end = stderr.rfind("\nNode.js v")
    if not starts or end < starts[-1].end():
        return None
    said = stderr[starts[-1].end() : end]
    thrown = _UNCAUGHT.search(said)
    if thrown is None:
        return None
    at = re.search(rf"/{name}:(\d{{1,9}}):(\d{{1,9}})\)?$", said[thrown.start() :], re.MULTILINE)
    line, column = (int(at[1]), int(at[2])) if at else (int(starts[-1][1]), _caret(said[: thrown.start()]))
    return Failure(
        type=thrown[1], message=thrown[2], line=line, column=column, traceback=said[thrown.start() :].strip()
    )


def _caret(said: str) -> int | None:
    """The column that Node points at, below the line."""
    mark = re.search(r"^( *)\^+$", said, re.MULTILINE)
    return len(mark[1]) + 1 if mark else None


@functools.cache
def _driver() -> str:
    return _DRIVER.read_text(encoding="utf-8")
