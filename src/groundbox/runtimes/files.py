"""Names of program files, for the languages whose interpreters read one."""

from __future__ import annotations

import dataclasses
import hashlib

from groundbox.errors import InvalidArgument
from groundbox.execution import Artifacts, Execution
from groundbox.sandbox.languages import Program

_MOST_BYTES = 255


def check_filename(name: str) -> str:
    """The name, if a file in the workdir can have it.

    Raises:
        InvalidArgument: It is a path, or no name at all.
    """
    if name in ("", ".", "..") or "/" in name or "\0" in name or len(name.encode("utf-8", "replace")) > _MOST_BYTES:
        raise InvalidArgument("filename", f"{name!r} is no name of a file; give one without folders, such as 'main.sh'")
    return name


def without_program(program: Program, execution: Execution) -> Execution:
    """The result without the program's own file, which is left in the workdir when all was ended at once."""
    left = execution.artifacts.get(program.filename)
    if left is None or left.sha256 != hashlib.sha256(program.source.encode()).hexdigest():
        return execution
    others = [artifact for path, artifact in execution.artifacts.items() if path != program.filename]
    return dataclasses.replace(execution, artifacts=Artifacts(others))
