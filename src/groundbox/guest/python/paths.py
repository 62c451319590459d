"""Hints for files and folders that are not where a program looks for them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Final

from .fault import Fault, either, listing, nearest
from .frames import is_beneath

FILES: Final = 200
_FOLDERS_DEEP: Final = 3
_KERNELS: Final = re.compile(r"/(proc|sys)(/|$)")
_DATA: Final = re.compile(r"\s*[<{\[]|[^\n]*\n")
_ADDRESS: Final = re.compile(r"[a-z][a-z0-9+]*://")
_DRIVE: Final = re.compile(r"[A-Za-z]:\\")
_NO_FOLDER: Final = re.compile(r"Cannot save file into a non-existent directory: '(.+)'")


def missing_file(fault: Fault) -> list[str]:
    """FileNotFoundError: near names, or the files there are; for the kernel's own files, what is there instead."""
    exc = fault.exc
    if not isinstance(exc, FileNotFoundError) or not isinstance(exc.filename, (str, bytes)):
        return []
    wanted = os.fsdecode(exc.filename)
    if "subprocess" in fault.packages() and os.sep not in wanted:
        return [f"There is no program `{wanted}` in this sandbox."]
    if _KERNELS.match(wanted):
        return [
            f"`{wanted}` is not there: /proc shows this sandbox's processes only, and there is no /sys. "
            "psutil.virtual_memory(), os.sched_getaffinity(0) and resource.getrusage tell what programs may know."
        ]
    if _ADDRESS.match(wanted):
        return ["This is an address, and a path is wanted here: get it with `requests` or `urllib.request` first."]
    if _DATA.match(wanted):
        return ["This is data, and a path is wanted here: pass `io.StringIO(text)`."]
    return _elsewhere(fault, wanted)


def missing_folder(fault: Fault) -> list[str]:
    """OSError of pandas, which looks before it writes."""
    found = _NO_FOLDER.search(fault.message)
    return [_no_folder(found[1], fault.scene.workdir)] if found else []


def _elsewhere(fault: Fault, wanted: str) -> list[str]:
    workdir, here = fault.scene.workdir, _here(fault.scene.workdir)
    found = list(_files(workdir))
    name = wanted.rpartition("\\")[2] if _DRIVE.match(wanted) else os.path.basename(wanted)
    close = nearest(name, [os.path.basename(path) for path in found])
    same = [path for path in found if os.path.basename(path) == name]
    alike = [path for near in close for path in found if os.path.basename(path) == near]
    moved = f" The current directory is `{here}`, where relative paths start." if here != workdir else ""
    if same or alike:
        from_here = [os.path.relpath(os.path.join(workdir, path), here) for path in dict.fromkeys(same + alike)]
        return [f"Did you mean {either(from_here[:3])}?{moved}"]
    folder = os.path.dirname(os.path.join(here, wanted))
    hints = [] if os.path.isdir(folder) else [_no_folder(os.path.dirname(wanted), workdir)]
    if found:
        return [*hints, f"The files in the working directory are: {listing(sorted(found))}.{moved}"]
    if hints:
        return hints
    return ["The working directory is empty: files must be written into the sandbox, or made by the program, first."]


def _no_folder(folder: str, workdir: str) -> str:
    if folder.startswith("~"):
        return f"`{folder}` is not expanded where a file is opened: use the working directory, by relative paths."
    if is_beneath(os.path.abspath(folder), workdir):
        return f"There is no folder `{folder}`: a program that writes there makes it first, by `os.makedirs`."
    return f"There is no folder `{folder}` in this sandbox: read and write in the working directory, by relative paths."


def _here(workdir: str) -> str:
    try:
        return os.getcwd()
    except OSError:
        return workdir


def _files(workdir: str) -> Iterator[str]:
    """Files in the workdir, relative to it, at most 200, three folders deep."""
    todo = [("", 0)]
    count = 0
    while todo:
        folder, depth = todo.pop(0)
        try:
            entries = sorted(os.scandir(os.path.join(workdir, folder)), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            path = os.path.join(folder, entry.name)
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                if depth < _FOLDERS_DEEP:
                    todo.append((path, depth + 1))
                continue
            count += 1
            if count > FILES:
                return
            yield path
