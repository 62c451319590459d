"""What a prompt or a notebook wants of the live process: how a source may go on, what a name is, where `input()` reads.

All are called by the host (mode `call`), so that none leaves a trace among the cells. What is answered is a claim.
"""

from __future__ import annotations

import builtins
import codeop
import getpass
import inspect
import json
import keyword
import os
import pkgutil
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

MOST: Final = 200
_STRING: Final = re.compile(r"""(?:^|[\s=(,\[{+rRbBfF])(['"])((?:(?!\1)[^\\])*)$""")
_KEY: Final = re.compile(r"""([A-Za-z_][\w.]*)\[(['"])((?:(?!\2)[^\\])*)$""")
_IMPORT: Final = re.compile(r"^\s*(?:import|from)\s+(?:\w+\s*,\s*)*(\w*)$")
_CHAIN: Final = re.compile(r"[A-Za-z_][\w.]*$")
_MAGIC: Final = re.compile(r"^\s*(%%?\w*)$")
_NAME: Final = re.compile(r"[A-Za-z_][\w.]*")
_MOST_LINE: Final = 2000
_MOST_TEXT: Final = 100_000


def complete(line: str, begin: int) -> None:
    """Write to standard output, as JSON, how the end of `line` may go on.

    Args:
        begin: Where in the line the part begins that the completions are to replace.
    """
    _tell(completions(line, begin, sys.modules["__main__"].__dict__))


def complete_cell(code: str, at: int) -> None:
    """Write how the text before character `at` may go on: words, and the characters that each of them replaces."""
    line = code[:at].rpartition("\n")[2][-_MOST_LINE:]
    start, found = _words(line, sys.modules["__main__"].__dict__)
    matches = sorted({word for word in found if word.startswith(line[start:])})[:MOST]
    _tell({"matches": matches, "start": at - len(line) + start, "end": at})


def describe(code: str, at: int, detail: int) -> None:
    """Write what the name at character `at` stands for, or before it where there is none; with `detail`, its source."""
    found = [each for each in _NAME.finditer(code) if each.start() <= at]
    name = found[-1][0].rstrip(".") if found else ""
    _tell((_description(name, detail)[:_MOST_TEXT] if name else "") or None)


def completeness(code: str) -> None:
    """Write whether a cell ends where this text does, and how far the next line would be moved to the right."""
    shell = _shell()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        status, indent = shell.check_complete(code) if shell is not None else _completeness(code)
    _tell({"status": status, "indent": indent or ""})


def completions(line: str, begin: int, namespace: Mapping[str, Any]) -> list[str]:
    """What may stand from `begin` on in place of what does."""
    start, found = _words(line, namespace)
    fitting = {word for word in found if word.startswith(line[start:])}
    whole = [line[:start] + word for word in sorted(fitting)[:MOST]]
    return [text[begin:] for text in whole]


def answer_input(ask: Callable[[], Any]) -> None:
    """Let `input()` of this process get its lines by `ask`, which gives None at their end."""

    def read(prompt: object = "", /) -> str:
        """Read a line that is typed at the prompt, or that comes next where cells are piped in."""
        sys.stdout.write(str(prompt))
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        line = ask()
        if line is None:
            raise EOFError("there are no more lines")
        return str(line)

    _be_input(read)


def ask_client(ask: Callable[..., Any]) -> None:
    """Let `input()` and `getpass()` of this process be asked of a client that shows their prompts itself."""

    def answer(prompt: object, password: bool) -> str:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        line = ask(prompt=str(prompt), password=password)
        if line is None:
            raise EOFError("nobody answers input() here: the client of this cell takes no questions")
        return str(line)

    def read(prompt: object = "", /) -> str:
        """Read a line that the notebook asks for."""
        return answer(prompt, False)

    def read_password(prompt: str = "Password: ", stream: Any = None, **options: Any) -> str:
        """Read a line that is not shown while it is typed."""
        return answer(prompt, True)

    _be_input(read)
    getpass.getpass = read_password


def _be_input(read: Callable[..., str]) -> None:
    read.__name__ = read.__qualname__ = "input"
    read.__module__ = "builtins"
    builtins.input = read


def _tell(answer: Any) -> None:
    sys.modules.pop("program", None)  # the module that holds the call
    os.write(1, json.dumps(answer).encode("ascii"))


def _shell() -> Any:
    """IPython's, or None in an environment without it."""
    get = getattr(builtins, "get_ipython", None)
    return None if get is None else get()


def _description(name: str, detail: int) -> str:
    shell = _shell()
    if shell is not None:
        try:
            told = shell.object_inspect_mime(name, detail_level=int(bool(detail)))
            return str(told.get("text/plain", ""))
        except KeyError:
            return ""
    value = _value(name, sys.modules["__main__"].__dict__)
    if value is _NOTHING:
        return ""
    try:
        signature = f"Signature: {name}{inspect.signature(value)}\n"
    except (TypeError, ValueError):
        signature = ""
    return f"{signature}Docstring: {inspect.getdoc(value) or '<no docstring>'}\nType: {type(value).__name__}"


def _completeness(code: str) -> tuple[str, str]:
    """By Python's own prompt; the indent is that of the last line, and a block's more after a colon."""
    try:
        ended = codeop.compile_command(code, symbol="exec") is not None
    except (SyntaxError, ValueError, OverflowError, MemoryError, RecursionError):
        return "invalid", ""
    last = code.rstrip().rpartition("\n")[2]
    if ended and not (last.startswith((" ", "\t")) and not code.endswith("\n\n")):
        return "complete", ""
    indent = last[: len(last) - len(last.lstrip())]
    return "incomplete", indent + ("    " if last.endswith(":") else "")


def _words(line: str, namespace: Mapping[str, Any]) -> tuple[int, list[str]]:
    """Where the word that is being written begins, and whole words for it."""
    if (found := _MAGIC.match(line)) and (shell := _shell()) is not None:
        magics = shell.magics_manager.magics
        mark = "%%" if found[1].startswith("%%") else "%"
        return found.start(1), [mark + name for name in magics["cell" if mark == "%%" else "line"]]
    if found := _KEY.search(line):
        holder = _value(found[1], namespace)
        keys = _keys(holder)
        if keys:
            return found.start(3), keys  # the line editor adds the quotation mark
    if found := _STRING.search(line):
        return found.start(2), list(_files(found[2]))
    if found := _IMPORT.match(line):
        modules = {*sys.stdlib_module_names, *(module.name for module in pkgutil.iter_modules())}
        return found.start(1), _visible(modules, found[1])
    found = _CHAIN.search(line)
    if found is None:
        return len(line), []
    owner, dot, part = found[0].rpartition(".")
    if not dot:
        return found.start(), _visible({*namespace, *dir(builtins), *keyword.kwlist}, part)
    value = _value(owner, namespace)
    if value is _NOTHING:
        return found.start(), []
    return found.start() + len(owner) + 1, _visible(_names_of(value), part)


_NOTHING: Final = object()


def _value(chain: str, namespace: Mapping[str, Any]) -> Any:
    """What a chain of names stands for. Code of the program runs only where an attribute is made by `__getattr__`."""
    first, *rest = chain.split(".")
    value = namespace.get(first, getattr(builtins, first, _NOTHING))
    for name in rest:
        if value is _NOTHING:
            break
        static = inspect.getattr_static(value, name, _NOTHING)
        if isinstance(static, property):
            return _NOTHING
        try:
            value = getattr(value, name)
        except Exception:
            return _NOTHING
    return value


def _names_of(value: Any) -> Iterable[str]:
    try:
        return dir(value)
    except Exception:
        return object.__dir__(value)


def _keys(holder: Any) -> list[str]:
    keys = holder if isinstance(holder, dict) else getattr(holder, "columns", ()) if holder is not _NOTHING else ()
    try:
        return [key for key in list(keys)[:MOST] if isinstance(key, str)]
    except Exception:
        return []


def _visible(names: Iterable[str], begun: str) -> list[str]:
    """Names with an underscore only for who has written one."""
    return [name for name in names if name.startswith(begun) and (begun.startswith("_") or not name.startswith("_"))]


def _files(begun: str) -> Iterable[str]:
    folder = os.path.dirname(begun)
    try:
        with os.scandir(folder or ".") as entries:
            for entry, _ in zip(entries, range(MOST), strict=False):
                yield os.path.join(folder, entry.name) + ("/" if entry.is_dir() else "")
    except OSError:
        return
