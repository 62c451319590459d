"""Shell: scripts and commands of bash.

A script is a file that bash reads, a command is what `bash -c` is given. Both take arguments and standard input,
and end with an exit status. bash keeps no state from one run to the next; the workdir's files stay.

Options:
    cwd: The folder it runs in, absolute or relative to the current one. Exit code 125 where there is none.
    env: Added to the environment.
    keep_processes: Whether what it leaves running lives on, until a program ends that was run without this.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, Final

from groundbox.errors import InvalidArgument
from groundbox.execution import Execution, Failure, Outcome
from groundbox.runtimes.files import check_filename, without_program
from groundbox.sandbox.languages import Needs, Program, SelfTest
from groundbox.sandbox.variables import checked_variables

MODES: Final = ("script", "command")
OPTIONS: Final = frozenset({"cwd", "env", "keep_processes"})
EXTENSION: Final = ".sh"
NEEDS: Final = Needs("bash", "apt install bash")
SELF_TEST: Final = SelfTest(source="echo hello | tr a-z A-Z", mode="script", prints="HELLO\n")
_MOST_COMMAND_BYTES: Final = 128 * 1024 - 1
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126
_OPENING: Final = """read -r -u 5 BASH_ENV || kill -9 $$
if read -t 0 -u 6; then exec 1>&7 2>&8; mapfile -u 6 BASH_ENV; printf %s "${BASH_ENV[@]}" >&2; fi
exec 1>&7 2>&8 5<&- 6<&- 7>&- 8>&- 9<&-
unset BASH_ENV
SECONDS=0
: bash
"""
_AHEAD: Final = {
    "startup_file": "BASH_ENV",
    "opening": _OPENING,
    "unless": [
        *("BASH_ENV", "BASHOPTS", "BASH_COMPAT", "BASH_XTRACEFD", "POSIXLY_CORRECT", "SECONDS", "SHELLOPTS", "TMOUT"),
        "BASH_FUNC_*",
    ],
}
"""bash reads a file of its caller's choice before its script. There it waits to hear that the script lies at its place,
shows what it has complained of until then, and puts things back as they are without that file."""
_HINTS: Final = {
    _NOT_FOUND: "The sandbox has no such command, or its name is misspelt; `compgen -c` lists all there are.",
    _NOT_EXECUTABLE: "The file is there but cannot be executed: `chmod +x` it, or name its interpreter.",
}


def profile(source: str) -> str:
    """`bare`: no Python runs in it."""
    return "bare"


def order(program: Program) -> dict[str, Any]:
    """The order for the worker."""
    if program.mode not in MODES:
        raise InvalidArgument("mode", f"{program.mode!r} is neither 'script' nor 'command'")
    name = check_filename(program.filename)
    frame = {"op": "run", "mode": "command", **_options(program.options)}
    if program.mode == "script":
        file = {"name": name, "text": program.source, "where": "workdir"}
        return {**frame, "argv": ["bash", "--", {"place": name}, *program.argv], "file": file, "ahead": _AHEAD}
    if len(program.source.encode()) > _MOST_COMMAND_BYTES or "\0" in program.source:
        raise InvalidArgument("source", "is too long for a command, or holds a NUL; use mode='script'")
    return {**frame, "argv": ["bash", "-c", program.source, name, *program.argv]}


def _options(options: Mapping[str, Any]) -> dict[str, Any]:
    cwd, keep = options.get("cwd"), options.get("keep_processes", False)
    if cwd is not None and (not isinstance(cwd, str) or not cwd or "\0" in cwd):
        raise InvalidArgument("cwd", f"must be the path of a folder, not {cwd!r}")
    environ = checked_variables(options.get("env"), any_name=True)
    if not isinstance(keep, bool):
        raise InvalidArgument("keep_processes", f"must be True or False, not {keep!r}")
    return {"cwd": cwd, "environ": environ, "keep": keep}


def finish(program: Program, execution: Execution, studied: None) -> Execution:
    """Name the line that failed, where bash's last words are about one."""
    execution = without_program(program, execution)
    if execution.outcome is not Outcome.ERROR or execution.error is None:
        return execution
    failure = _failure(program, execution.stderr) or execution.error
    hint = _HINTS.get(execution.exit_code or 0)
    hints = (*failure.hints, hint) if hint and failure.line else failure.hints
    return dataclasses.replace(execution, error=dataclasses.replace(failure, hints=hints))


def _failure(program: Program, stderr: str) -> Failure | None:
    said = re.compile(rf"{re.escape(program.filename)}: (?:-c: )?line (\d{{1,9}}): (.*)")
    found = None
    for text in reversed(stderr.rstrip("\n").rsplit("\n", 4)[-4:]):
        match = said.fullmatch(text)
        if match is None or (found and found[1] != match[1]):
            break
        found = match
    if found is None:
        return None
    syntax = found[2].startswith(("syntax error", "unexpected EOF"))
    return Failure(type="SyntaxError" if syntax else "CommandFailed", message=found[2], line=int(found[1]))
