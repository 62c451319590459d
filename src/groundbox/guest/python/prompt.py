"""What a prompt on the host wants of the live process: how a line may go on, and where `input()` gets its lines.

Both are called by the host (mode `call`), so that neither leaves a trace among the cells. What is answered is a claim.
"""

from __future__ import annotations

import builtins
import inspect
import json
import keyword
import os
import pkgutil
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

MOST: Final = 200
_STRING: Final = re.compile(r"""(?:^|[\s=(,\[{+rRbBfF])(['"])((?:(?!\1)[^\\])*)$""")
_KEY: Final = re.compile(r"""([A-Za-z_][\w.]*)\[(['"])((?:(?!\2)[^\\])*)$""")
_IMPORT: Final = re.compile(r"^\s*(?:import|from)\s+(?:\w+\s*,\s*)*(\w*)$")
_CHAIN: Final = re.compile(r"[A-Za-z_][\w.]*$")


def complete(line: str, begin: int) -> None:
    """Write to standard output, as JSON, how the end of `line` may go on.

    Args:
        begin: Where in the line the part begins that the completions are to replace.
    """
    sys.modules.pop("program", None)  # the module that holds the call
    os.write(1, json.dumps(completions(line, begin, sys.modules["__main__"].__dict__)).encode("ascii"))


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

    read.__name__ = read.__qualname__ = "input"
    read.__module__ = "builtins"
    builtins.input = read


def _words(line: str, namespace: Mapping[str, Any]) -> tuple[int, list[str]]:
    """Where the word that is being written begins, and whole words for it."""
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
