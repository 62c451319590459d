"""uv, the program that makes venvs and fills them: where it is, and how it is called.

uv is called with its own configuration in force (`UV_*`, uv.toml), and where that names no index,
with the index and the certificates that pip is configured with, since that is what people have set up.
pip's extra indexes and find-links are not handed on: uv takes a package from the first index that has it
and pip from the best, so that the same settings would mean something else.
Set UV_INDEX or UV_FIND_LINKS for those.
"""

from __future__ import annotations

import configparser
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from groundbox.errors import EnvironmentFailed

# Settings of the calling shell that would turn uv or an interpreter to another venv than the one being built.
_MISLEADING: Final = (
    "CONDA_PREFIX",
    "PYTHONHOME",
    "PYTHONPATH",
    "UV_PREFIX",
    "UV_PYTHON",
    "UV_SYSTEM_PYTHON",
    "UV_TARGET",
    "VIRTUAL_ENV",
)


def command() -> list[str]:
    """How uv is called here: the one installed beside groundbox, else the one on PATH.

    Raises:
        EnvironmentFailed: There is none.
    """
    if importlib.util.find_spec("uv") is not None:
        return [sys.executable, "-m", "uv"]
    if found := shutil.which("uv"):
        return [found]
    raise EnvironmentFailed("environments are built with uv, which is not installed: `pip install uv`")


def run(arguments: Sequence[str | Path], *, cwd: Path, keep_open: int, what: str) -> None:
    """Runs uv to its end.

    Args:
        cwd: A folder of ours, because uv looks for settings from there upwards.
        keep_open: Descriptor that uv inherits, and so holds the lock on the build for as long as it lives.
        what: What is being done, for the error.

    Raises:
        EnvironmentFailed: uv is missing or failed; the message ends with what it said.
    """
    finished = subprocess.run(
        [*command(), *map(str, arguments)],
        cwd=cwd,
        env=settings(os.environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        pass_fds=[keep_open],
        umask=0o022,
        check=False,
    )
    if finished.returncode != 0:
        said = finished.stderr.decode(errors="replace").strip()
        raise EnvironmentFailed(f"{what} failed (uv ended with {finished.returncode}):\n{said[-4000:]}")


def settings(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment variables uv runs with: the caller's without what misleads, and pip's index."""
    ours = {name: value for name, value in environ.items() if name not in _MISLEADING}
    ours["UV_PYTHON_DOWNLOADS"] = "never"
    ours["UV_NO_PROGRESS"] = "1"
    says_an_index = ours.keys() & {"UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_CONFIG_FILE"}
    if not says_an_index and (index := _pip_setting("index-url", environ)):
        ours["UV_DEFAULT_INDEX"] = index
    if "SSL_CERT_FILE" not in ours and (certificates := _pip_setting("cert", environ)):
        ours["SSL_CERT_FILE"] = certificates
    return ours


def _pip_setting(name: str, environ: Mapping[str, str]) -> str | None:
    """One of pip's global settings, by the order documented under "Configuration" in its user guide."""
    if value := environ.get("PIP_" + name.upper().replace("-", "_")):
        return value
    chosen = environ.get("PIP_CONFIG_FILE")
    if chosen == os.devnull:  # pip's way to say that no file counts
        return None
    config = configparser.RawConfigParser()
    home = Path(os.path.expanduser("~"))
    user = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    files = [Path("/etc/pip.conf"), home / ".pip/pip.conf", user / "pip/pip.conf"]
    files.append(Path(sys.prefix) / "pip.conf")
    if chosen:
        files.append(Path(chosen))
    try:
        config.read(files, encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError):
        return None
    return config.get("global", name, fallback=None)
