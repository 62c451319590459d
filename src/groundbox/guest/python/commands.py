"""`!command`, `%pip` and the magics that mean something else here than in a notebook.

Commands write straight to file descriptors 1 and 2, like the program itself.
"""

from __future__ import annotations

import importlib
import os
import re
import shlex
import site
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, Final

from .hints import Hinted
from .network import behind_proxy, network_is_off, refusal

_PIP: Final = re.compile(r"^\s*(?:\S*/)?(?:pip[\d.]*|python[\d.]*\s+-m\s+pip)(?=\s|$)")
_BARE_PIP: Final = re.compile(r"^(\s*)(pip3? (?:install|list|show|freeze|uninstall|download)\b.*)$", re.MULTILINE)
_NO_NETWORK: Final = re.compile(
    r"Temporary failure in name resolution|Name or service not known|Network is unreachable"
    r"|Failed to establish a new connection|Tunnel connection failed|Connection refused"
    r"|Operation not permitted"
)
_INDEX: Final = re.compile(r"host='([A-Za-z0-9.-]+)'")
_PUBLIC_INDEX: Final = ("pypi.org", "files.pythonhosted.org")


_MOST_FAILURES: Final = 8
_MOST_COMMAND_CHARS: Final = 200
_MOST_HINT_CHARS: Final = 600
_failures: list[dict[str, Any]] = []
"""Commands of this cell whose status was not 0. IPython does not raise for them."""


class PipFailed(Hinted):
    """`%pip` ended with a status other than 0."""

    __module__ = "builtins"  # as `NoSuchFunction`


def with_pip_magic(source: str) -> str:
    """The source with bare `pip install …` lines made magics, as notebooks allow."""
    return _BARE_PIP.sub(r"\1%\2", source)


def system(command: str) -> int:
    """Run a shell command; its status, negative for a signal. Its output is the program's."""
    hint = ""
    if _PIP.match(command):
        status, hint = _pip(_PIP.sub("", command, count=1))
    else:
        _flush()
        status = subprocess.run(["/bin/sh", "-c", command], stdin=subprocess.DEVNULL, check=False).returncode
    _note_status(command, status, hint)
    return status


def read_output(command: str) -> tuple[int, str]:
    """Run a shell command; return its status and what it wrote to both streams."""
    pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    done = subprocess.run(["/bin/sh", "-c", command], check=False, **pipes)
    _note_status(command, done.returncode, "")
    return done.returncode, done.stdout.decode("utf-8", "replace")


def take_failures() -> list[dict[str, Any]]:
    """Return the commands that failed since the last call, at most 8, and forget them."""
    taken = _failures[:]
    _failures.clear()
    return taken


def _note_status(command: str, status: int, hint: str) -> None:
    if status != 0 and len(_failures) < _MOST_FAILURES:
        line = " ".join(command.split())
        shown = line if len(line) <= _MOST_COMMAND_CHARS else f"{line[: _MOST_COMMAND_CHARS - 1]}…"
        _failures.append({"command": shown, "status": status, "hint": hint[:_MOST_HINT_CHARS]})


def pip_magic(line: str) -> None:
    """`%pip …`

    Raises:
        PipFailed: pip failed; its output has been shown.
    """
    status, hint = _pip(line)
    if status != 0:
        raise PipFailed(f"pip ended with status {status}", *filter(None, [hint]))


def shell_cell(program: str, body: str) -> None:
    """`%%bash` and `%%sh`: run the cell's text as a shell script.

    Raises:
        subprocess.CalledProcessError: The script's status was not 0.
    """
    _flush()
    subprocess.run([program, "-s"], input=body.encode(), check=True)


def _pip(line: str) -> tuple[int, str]:
    """Run pip; its status, and a hint if it failed for want of a network."""
    arguments = shlex.split(line, comments=True)
    environ = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1", "PIP_RETRIES": "1", **os.environ}
    target = None
    if arguments[:1] == ["install"]:
        target = _target(arguments, environ)
    _flush()
    process = subprocess.Popen(
        [sys.executable, "-m", "pip", *arguments],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environ,
    )
    assert process.stderr is not None
    hint = ""
    with process.stderr:
        for row in process.stderr:
            hint = hint or _pip_hint(row.decode("utf-8", "replace"))
            os.write(2, row)
    status = process.wait()
    if target is not None and status == 0:
        _make_importable(target)
    return status, hint if status != 0 else ""


def _pip_hint(row: str) -> str:
    """What helps, where this line of pip's tells of a host that it did not reach."""
    told = refusal(row)
    if told is not None:
        return f"pip could not reach its package index. {told}"
    if not _NO_NETWORK.search(row):
        return ""
    if behind_proxy():
        return "pip could not reach its package index through the sandbox's proxy; what it wrote says why."
    found = _INDEX.search(row)
    hosts = _PUBLIC_INDEX if found is None or found[1] in _PUBLIC_INDEX else (found[1],)
    return f"pip could not reach its package index. {network_is_off(*hosts)} Or use a package that is installed."


def _target(arguments: list[str], environ: Mapping[str, str]) -> str | None:
    """Where packages go: the environment itself is read-only. Adds the option where none is given."""
    options = ("-t", "--target", "--user", "--prefix", "--root")
    if any(argument.split("=")[0] in options for argument in arguments):
        return None
    if "PIP_TARGET" in environ:
        return environ["PIP_TARGET"]
    target = site.getusersitepackages()
    arguments += ["--target", target]
    return target


def _make_importable(target: str) -> None:
    if target not in sys.path:
        sys.path.append(target)
    importlib.invalidate_caches()


def _flush() -> None:
    """What the program printed before comes before what the command prints."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            continue


def register(shell: Any) -> None:
    """Put our magics over IPython's."""

    def quiet(line: str) -> None:
        """Accepted and without effect here."""

    def config(line: str) -> None:
        """`%config`: settings of things that do not exist here are ignored."""
        owner = line.strip().partition(".")[0]
        known = {type(configurable).__name__ for configurable in shell.configurables}
        if not owner or owner in known:
            builtin_config(line)

    magics = shell.magics_manager.magics
    builtin_config = shell.find_line_magic("config")
    for name in ("matplotlib", "pylab", "gui", "load_ext", "reload_ext", "autoreload", "colors"):
        magics["line"][name] = _tolerant(shell, name, quiet)
    magics["line"]["config"] = config
    magics["line"]["pip"] = pip_magic
    original_bash = shell.find_cell_magic("bash")

    def bash(line: str, cell: str) -> Any:
        """`%%bash` without options runs here; with options, as IPython does it."""
        return original_bash(line, cell) if line.strip() else shell_cell("bash", cell)

    def sh(line: str, cell: str) -> Any:
        """`%%sh`"""
        return original_bash(line, cell) if line.strip() else shell_cell("sh", cell)

    magics["cell"]["bash"] = bash
    magics["cell"]["sh"] = sh


def _tolerant(shell: Any, name: str, quiet: Any) -> Any:
    """Loading an extension works as ever, unless it is one that only a notebook has."""
    if name not in ("load_ext", "reload_ext"):
        return quiet
    original = shell.find_line_magic(name)

    def load(line: str) -> Any:
        return None if line.strip() in ("autoreload", "tensorboard") else original(line)

    load.__doc__ = original.__doc__
    return load
