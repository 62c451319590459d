"""The program that a command is to run: from a file, from stdin, or from `-c`."""

from __future__ import annotations

import dataclasses
import os
import re
import stat
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

import click

from groundbox.sandbox import languages
from groundbox.sandbox.files import MOST_BYTES
from groundbox.sandbox.languages import MOST_SOURCE_BYTES, Mode

LANGUAGES: Final = {
    ".py": "python",
    ".ipy": "python",
    ".sql": "sql",
    ".js": "javascript",
    ".mjs": "javascript",
    ".sh": "shell",
    ".bash": "shell",
    ".dot": "dot",
    ".gv": "dot",
}
"""Endings of files to languages; another file is what its first line (`#!`) names, or Python."""
_OTHERS: Final = re.compile(r"\.(c|cc|cpp|cs|go|java|jl|kt|lua|php|pl|r|rb|rs|scala|swift|tsx?|zig|exe|pyc|csv|xlsx)")
"""Endings of what is no program here: taken for Python, it would fail in words that lead nowhere."""
_INTERPRETER: Final = re.compile(r"#!.*?\b(python|bash|sh|node)[\d.]*\s*(?:-.*)?$", re.MULTILINE)
MOST_STDIN_BYTES: Final = 1024 * 1024 * 1024


@dataclasses.dataclass(frozen=True, kw_only=True)
class Program:
    """What is to be run, and how."""

    source: str
    language: str
    mode: Mode
    argv: tuple[str, ...]
    stdin: bytes | None
    filename: str | None


@dataclasses.dataclass(frozen=True)
class Handed:
    """A host file or folder, and its path in the workdir (None: the same name)."""

    host: Path
    guest: str | None


def find(
    words: Sequence[str], code: str | None, *, language: str | None, mode: str | None, stdin: str | None
) -> Program:
    """The program that the command line names.

    A file is a script. `-c` and `-` are a cell, unless arguments or standard input are given,
    which only scripts have.

    Raises:
        click.UsageError: The words make no program; the message names the one at fault.
    """
    if code is not None:
        name, argv, source = "-c", tuple(words), _decode_argument(code)
    elif words:
        name, *rest = words
        argv, source = tuple(rest), _text(name)
    else:
        raise click.UsageError("there is nothing to run: name a FILE, say - for stdin, or -c CODE")
    if name == "-" and stdin == "-":
        raise click.UsageError("both the program and its --stdin come from stdin; put one into a file")
    if not source.strip():
        raise bad(_called(name), "the program is empty; give it at least one statement")
    spoken = languages.named(language) if language else _spoken(name, source)
    chosen = _mode(mode, spoken, from_file=name not in ("-", "-c"), argv=argv, stdin=stdin)
    return Program(
        source=source,
        language=spoken,
        mode=chosen,
        argv=argv,
        stdin=None if stdin is None else _bytes(stdin, "--stdin", MOST_STDIN_BYTES),
        filename=None if name in ("-", "-c") else os.path.basename(name),
    )


takes_files: Final[Callable[..., Any]] = click.option(
    "--file",
    "files",
    multiple=True,
    metavar="HOST[:GUEST]",
    help="A file or folder to copy into the workdir; repeatable.",
)
"""Gives a command `--file`; it receives what was written as `files`."""


def _decode_argument(text: str) -> str:
    """Return an argument as the terminal sent it, in UTF-8, also if the locale (LC_ALL=POSIX) knows ASCII only."""
    try:
        return os.fsencode(text).decode()
    except UnicodeError:
        return text


def hand_over(text: str, *, most_bytes: int | None) -> Handed:
    """What `--file HOST[:GUEST]` means. A host file whose own name holds a colon is found first.

    Raises:
        click.BadParameter: There is nothing to hand over, or it does not fit.
    """
    host, guest = text, ""
    if ":" in text and not _exists(text):
        host, _, guest = text.rpartition(":")
    found = _stat(host, "--file")
    size = found.st_size
    if stat.S_ISDIR(found.st_mode):
        size = sum(each.stat().st_size for each in Path(host).rglob("*") if each.is_file())
    elif not stat.S_ISREG(found.st_mode):
        raise bad("--file", f"{host!r} is neither a file nor a folder")
    if not os.access(host, os.R_OK):
        raise bad("--file", f"{host!r} cannot be read by you")
    if size > MOST_BYTES:
        problem = f"{host!r} has {size} bytes, more than the {MOST_BYTES} that are copied"
        raise bad("--file", f"{problem}; --mount shows it without a copy")
    if most_bytes is not None and size > most_bytes:
        raise bad("--file", f"{host!r} has {size} bytes and --disk-mib allows {most_bytes}; raise --disk-mib")
    if guest.endswith("/"):
        guest += Path(host).resolve().name
    return Handed(Path(host), guest or None)


def bad(option: str, problem: str) -> click.BadParameter:
    """A complaint about one option."""
    return click.BadParameter(problem, ctx=click.get_current_context(), param_hint=f"'{option}'")


def _mode(mode: str | None, language: str, *, from_file: bool, argv: tuple[str, ...], stdin: str | None) -> Mode:
    only_scripts = "arguments" if argv else "--stdin" if stdin is not None else ""
    if mode == "cell" and only_scripts:
        raise click.UsageError(f"a cell takes no {only_scripts.removeprefix('--')}; say --mode script")
    if mode is None:
        modes = languages.find(language).MODES
        mode = "script" if "script" in modes and (from_file or only_scripts) else modes[0]
    return cast("Mode", mode)


def _spoken(name: str, source: str) -> str:
    """The language of a program, by the ending of its file, or else by the interpreter that its first line names.

    Raises:
        click.BadParameter: The ending is that of something else.
    """
    ending = os.path.splitext(name)[1].lower()
    if ending == ".ipynb":
        raise bad("FILE", f"{name!r} is a notebook; `jupyter nbconvert --to script` makes a program of it")
    if _OTHERS.fullmatch(ending):
        raise bad("FILE", f"{name!r} ends like no program that runs here; --language says if it is one all the same")
    named = _INTERPRETER.match(source)
    return LANGUAGES.get(ending) or (languages.named(named[1]) if named else "python")


def _called(name: str) -> str:
    return name if name == "-c" else "FILE"


def _text(name: str) -> str:
    data = _bytes(name, "FILE", MOST_SOURCE_BYTES)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise bad(
            "FILE",
            f"{name!r} is not UTF-8: byte 0x{data[error.start]:02x} in line {line}; save it as UTF-8",
        ) from None


def _bytes(name: str, option: str, most: int) -> bytes:
    """All of a file or of stdin (`-`), at most `most` bytes."""
    if name == "-":
        return _at_most(sys.stdin.buffer, "stdin", option, most)
    found = _stat(name, option)
    if stat.S_ISDIR(found.st_mode):
        raise bad(option, f"{name!r} is a folder; name a file")
    try:
        with open(name, "rb") as file:
            return _at_most(file, repr(name), option, most)
    except OSError as error:
        raise bad(option, f"{name!r} cannot be read: {error.strerror}") from None


def _at_most(file: BinaryIO, name: str, option: str, most: int) -> bytes:
    data = file.read(most + 1)
    if len(data) > most:
        mend = "put data into files and hand them over with --file" if option == "FILE" else "give it less"
        raise bad(option, f"{name} has more than {most} bytes; {mend}")
    return data


def _stat(name: str, option: str) -> os.stat_result:
    if "\0" in name:
        raise bad(option, f"{name!r} holds a NUL byte; no file can be named so")
    try:
        return os.stat(name)
    except OSError as error:
        raise bad(option, f"{name!r} cannot be read: {error.strerror}") from None


def _exists(name: str) -> bool:
    try:
        return os.path.exists(name)
    except ValueError:
        return False
