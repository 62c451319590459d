"""Kernelspecs: what tells notebooks that there is a kernel, and how it is started.

A kernelspec is a folder of the kernel's name with `kernel.json`, below `kernels` in one of Jupyter's data folders
(https://jupyter-client.readthedocs.io/en/stable/kernels.html#kernel-specs). It is written without Jupyter, which need
not be installed beside groundbox: another Python's JupyterLab starts this Python's groundbox.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from groundbox.errors import InvalidArgument
from groundbox.jupyter.kernel import SHOWN_NAMES
from groundbox.sandbox import languages

DEFAULT: Final = "python3"
_SPEC_NAMES: Final = {"python": DEFAULT, **SHOWN_NAMES}
_TITLES: Final = {"javascript": "JavaScript", "sql": "SQL"}
_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,100}")


def kernelspecs() -> dict[str, dict[str, Any]]:
    """Kernelspecs by name, as a server lists them: one for each language that can be used here."""
    specs = {}
    for language in languages.listed():
        if language.missing is not None:
            continue
        name = _SPEC_NAMES.get(language.name, language.name)
        spec = spec_of(language.name, [], f"{name} (groundbox)")
        specs[name] = {"name": name, "spec": spec, "resources": {}}
    return specs


def spec_of(language: str, argv: Sequence[str], title: str) -> dict[str, Any]:
    """The content of `kernel.json`."""
    runtime = languages.find(language)
    return {
        "argv": list(argv),
        "env": {},
        "display_name": title,
        "language": SHOWN_NAMES.get(language, language),
        "interrupt_mode": "message",
        "metadata": {
            "file_extension": runtime.EXTENSION,
            "keeps_variables": runtime.MODES[0] == "cell",
        },
    }


def title_of(language: str) -> str:
    """What a notebook's launcher calls the kernel of a language."""
    name = SHOWN_NAMES.get(language, language)
    return f"{_TITLES.get(name, name.capitalize())} (groundbox)"


def folder_of(prefix: Path | None, environ: Mapping[str, str] = os.environ) -> Path:
    """Where kernelspecs lie: below `prefix`, or for None in the data folder of this user."""
    if prefix is not None:
        return prefix / "share" / "jupyter" / "kernels"
    if named := environ.get("JUPYTER_DATA_DIR"):
        return Path(named) / "kernels"
    data = environ.get("XDG_DATA_HOME") or Path(environ.get("HOME") or "~").expanduser() / ".local" / "share"
    return Path(data) / "jupyter" / "kernels"


def install(folder: Path, name: str, spec: Mapping[str, Any]) -> Path:
    """Write a kernelspec, in place of one of groundbox that has its name.

    Raises:
        InvalidArgument: The name is none, or that of another kernel.
        OSError: It cannot be written.
    """
    path = _path(folder, name)
    if path.exists() and not _is_ours(path):
        raise InvalidArgument("name", f"{name!r} is another kernel, in {path}; choose another name")
    folder.mkdir(parents=True, exist_ok=True)
    beside = folder / f".groundbox-{os.urandom(8).hex()}"
    beside.mkdir()
    try:
        (beside / "kernel.json").write_text(json.dumps(spec, indent=1) + "\n")
        if path.exists():
            shutil.rmtree(path)
        beside.rename(path)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    return path


def remove(folder: Path, name: str) -> Path:
    """Remove a kernelspec that `install` wrote.

    Raises:
        InvalidArgument: There is none of that name, or it is another kernel's.
    """
    path = _path(folder, name)
    if not path.is_dir():
        raise InvalidArgument("name", f"there is no kernel {name!r} in {folder}")
    if not _is_ours(path):
        raise InvalidArgument("name", f"{name!r} in {folder} is no kernel of groundbox, and stays")
    shutil.rmtree(path)
    return path


def command(options: Sequence[str]) -> list[str]:
    """How the kernel is started; Jupyter puts the path of the connection file in."""
    return [sys.executable, "-m", "groundbox", "jupyter", "kernel", "-f", "{connection_file}", *options]


def _path(folder: Path, name: str) -> Path:
    if not _NAME.fullmatch(name) or name.startswith("."):
        raise InvalidArgument("name", f"{name[:100]!r} is none: letters, digits, dots, hyphens and underscores")
    return folder / name


def _is_ours(path: Path) -> bool:
    with contextlib.suppress(OSError, ValueError, AttributeError, TypeError, IndexError):
        argv = json.loads((path / "kernel.json").read_text())["argv"]
        return bool(argv[1:5] == ["-m", "groundbox", "jupyter", "kernel"])
    return False
