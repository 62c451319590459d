"""Runs as values, and a sandbox that gives them back: most of the agent needs no process."""

import base64
import struct
from typing import Any

import pytest

from groundbox.execution import (
    Artifact,
    Artifacts,
    Display,
    Execution,
    Failure,
    Isolation,
    Outcome,
    Usage,
)


def make(
    *,
    stdout="",
    stderr="",
    value=None,
    error=None,
    outcome=None,
    displays=(),
    artifacts=(),
    warnings=(),
    dropped=None,
    language="python",
    state="kept",
    wall_s=0.01,
    outputs=None,
):
    if isinstance(value, str):
        value = {"text/plain": value}
    if isinstance(error, str):
        kind, _, message = error.partition(": ")
        error = Failure(type=kind, message=message, line=1)
    return Execution(
        execution_id="0" * 32,
        language=language,
        outcome=outcome or (Outcome.ERROR if error else Outcome.OK),
        exit_code=1 if error else 0,
        exit_signal=None,
        stdout=stdout,
        stderr=stderr,
        dropped_bytes={"stdout": 0, "stderr": 0, "displays": 0, "artifacts": 0} | (dropped or {}),
        value=value,
        error=error,
        displays=displays,
        artifacts=Artifacts(artifacts),
        warnings=warnings,
        usage=Usage(wall_s=wall_s, cpu_s=0.01, peak_memory_bytes=1, start_s=0.0, warm=True),
        isolation=Isolation(backend="namespaces", layers=()),
        state=state,
        outputs=outputs or {},
    )


def png(width=2, height=2, tail=b""):
    return b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + struct.pack(">II", width, height) + tail


def picture(data):
    return Display(data={"image/png": base64.b64encode(data).decode(), "text/plain": "<Figure>"})


def file(path: str, **about: Any) -> Artifact:
    about = {"size_bytes": 3, "media_type": "text/csv", "sha256": "00", **about}
    return Artifact(path=path, **about)


class RecordedBox:
    """Gives back one execution after another, or raises what is no execution."""

    def __init__(self, *executions):
        self.executions = list(executions)
        self.ran = []
        self.restarts = 0

    async def run(self, source, *, language="python", **options):
        self.ran.append((language, source, options))
        given = self.executions[min(len(self.ran), len(self.executions)) - 1]
        if isinstance(given, BaseException):
            raise given
        return given

    async def restart(self):
        self.restarts += 1
        return []


class CopiedBox(RecordedBox):
    """One of which copies can be made: given to it, which it hands out."""

    def __init__(self, *executions, copies=()):
        super().__init__(*executions)
        self.copies = list(copies)
        self.closed = 0

    async def fork(self, n):
        given, self.copies = self.copies[:n], self.copies[n:]
        if given and isinstance(given[0], BaseException):
            raise given[0]
        return given

    async def close(self):
        self.closed += 1


@pytest.fixture(scope="session")
def made():
    """What the tests here make things with."""

    class Made:
        execution = staticmethod(make)
        png = staticmethod(png)
        picture = staticmethod(picture)
        file = staticmethod(file)
        box = RecordedBox
        copied = CopiedBox

    return Made
