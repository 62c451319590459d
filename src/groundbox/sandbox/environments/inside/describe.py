"""Describes the environment whose interpreter runs this file, as JSON on standard output.

Run as `python -I describe.py`. Importing no package, it takes what the distributions' metadata says.
"""

from __future__ import annotations

import json
import os
import re
import sys
import sysconfig
from collections.abc import Iterator
from importlib import metadata


def describe() -> dict[str, object]:
    """Interpreter, packages, what can be imported, and where links lead to."""
    return {
        "python_version": list(sys.version_info[:3]),
        "base_prefix": os.path.realpath(sys.base_prefix),
        "packages": {name: each.version for name, each in sorted(distributions().items())},
        "import_names": import_names(),
        "roots": roots(),
        "linked_directories": linked_directories(),
    }


def import_names() -> dict[str, str]:
    """Top-level import to distribution; of several, the one of the same name, else the first by name."""
    named = {}
    for import_name, distributions in sorted(metadata.packages_distributions().items()):
        if not import_name.isidentifier() or import_name == "__pycache__":
            continue
        names = sorted({_normal(each) for each in distributions})
        same = _normal(import_name)
        named[import_name] = same if same in names else names[0]
    return named


def roots() -> list[str]:
    """Distributions that no other one requires: somebody has asked for them by name."""
    required = {
        _normal(re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0])
        for each in distributions().values()
        for requirement in each.requires or ()
        if "extra ==" not in requirement
    }
    return sorted(distributions().keys() - required)


def distributions() -> dict[str, metadata.Distribution]:
    """By name. Folders that only look like a distribution's metadata have no name and are left out."""
    # A missing METADATA reads as empty up to Python 3.13, whatever the type says.
    found = ((each.metadata and each.metadata["Name"], each) for each in metadata.distributions())
    return {_normal(name): each for name, each in found if name}


def linked_directories() -> list[str]:
    """Real folders, outside of the venv and the interpreter's prefix, that either needs.

    A link to a single file leads nowhere in the guest (Debian's sitecustomize.py into /etc is one):
    showing the folder it lies in could show a whole home directory.
    """
    inside = [os.path.realpath(sys.prefix), os.path.realpath(sys.base_prefix)]
    stdlib = sysconfig.get_path("stdlib")
    needed = [
        sys.base_exec_prefix,
        stdlib,
        sysconfig.get_path("platstdlib"),
        *_links(sys.prefix),
        *_links(stdlib),
    ]
    outside = set()
    for path in map(os.path.realpath, needed):
        if os.path.isdir(path) and not any(os.path.commonpath([path, each]) == each for each in inside):
            outside.add(path)
    return sorted(outside)


def _links(top: str) -> Iterator[str]:
    for folder, folders, _ in os.walk(top):
        for name in folders:
            path = os.path.join(folder, name)
            if os.path.islink(path):
                yield path


def _normal(name: str) -> str:
    """The form of a distribution's name that PEP 503 compares by."""
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    json.dump(describe(), sys.stdout)
