"""Which profile of warm libraries a program wants, read from its source.

The answer only decides how fast a run starts: a program that gets the wrong
profile behaves the same. So a wrong guess is allowed, and the direction of the
error is chosen: an import inside a string counts, since `science` can run anything.

The source comes from a stranger and this runs on the host, so it is never parsed:
the `ast` documentation warns that parsing can exhaust the C stack and end the process.
Every expression below is matched in linear time.
"""

from __future__ import annotations

import functools
import re
import sys
from typing import Final

SOURCE_LIMIT_CHARS: Final = 1 << 17
"""A longer source is not read; it gets `science`."""

_IMPORT: Final = re.compile(
    r"^(?:[^\n#'\"]{0,200}?[;:])?[ \t]*(?:import[ \t]+([\w.][^\n#;]*)|from[ \t]+([\w]+)[\w.]*[ \t]+import\b)",
    re.MULTILINE,
)
_DYNAMIC: Final = re.compile(r"""(?:import_module|__import__)\(\s*["'](\w+)""")
_SHELL: Final = re.compile(
    r"\bdisplay\s*\(|\bget_ipython\b"
    r"|^[ \t]*[%!]{1,2}[ \t]*[\w/.{$]"
    r"|^[ \t]*[\w.]+[ \t]*=[ \t]*[%!][ \t]*\w"
    r"|^[ \t]*\?{1,2}[\w.]+|^[ \t]*[\w.%]+\?{1,2}[ \t]*$",
    re.MULTILINE,
)


_KEPT_CHARS: Final = 64 * 1024
"""Of a source of which the answer is kept for its next run, as a dataset or a reward makes many of one program."""


def profile_for(source: str) -> str:
    """`science` if `source` imports beyond the standard library or needs IPython, else `bare`."""
    if len(source) > SOURCE_LIMIT_CHARS:
        return "science"
    return _kept_profile(source) if len(source) <= _KEPT_CHARS else _profile(source)


def _profile(source: str) -> str:
    if _SHELL.search(source):
        return "science"
    return "bare" if _imported(source) <= sys.stdlib_module_names else "science"


_kept_profile: Final = functools.lru_cache(maxsize=16)(_profile)


def _imported(source: str) -> set[str]:
    names = {match[1] for match in _DYNAMIC.finditer(source)}
    for match in _IMPORT.finditer(source):
        if match[2]:
            names.add(match[2])
        else:
            names.update(_top_names(match[1]))
    return names


def _top_names(clause: str) -> set[str]:
    """Packages named by `os, numpy.linalg as la`."""
    tops = (re.match(r"\s*(\w+)", part) for part in clause.split(","))
    return {top[1] for top in tops if top}
