"""Commands: a program of another language, run by its own interpreter in a child of the worker.

The interpreter gets the program as a file, never as a part of a command line that something would take apart.
A `workdir` file lies under its own name in the workdir as long as the program runs, so that what is beside it is
found as usual; where that name is taken by something else, and for a `private` file, it lies in a folder below TMPDIR.
A `stdin` file is the interpreter's standard input.
Files that the program was told to leave its results in lie there, too; they are claims like everything it says.
"""

from __future__ import annotations

import base64
import contextlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable
from typing import Any

from .children import Children, Interrupts, outcome
from .spares import Kind, Spare, Spares, Way, kind_of, way_of
from .wire import MOST_FRAME_BYTES

Send = Callable[[dict[str, Any]], None]
_MOST_RESULT_BYTES = MOST_FRAME_BYTES * 5 // 8
"""Base64 makes four bytes of three."""
_SOON_S = 0.002
"""What bash takes to start, about."""


class Commands:
    """Those of one worker."""

    def __init__(self, children: Children, send: Send, apart: int = -1) -> None:
        """Args:
        apart: What keeps programs apart (apart.py); -1 where nothing does.
        """
        self.spares: Spares[_Places] = Spares(children, apart)
        self._children = children
        self._send = send
        self._order: dict[str, Any] = {}
        self._next: tuple[Way, Kind] | None = None
        self._idle_since = float("-inf")
        self._pause_s = float("inf")

    def run(self, order: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        """Run `argv` and wait for its end; what `done` says.

        Of the order:
            argv: Texts, and `{"place": NAME}` for the path of the program's file or of a result.
            file: `{"name", "text", "where"}`, where is `workdir`, `private` or `stdin`; may be left out.
            results: Name to media type. Shown as one display when the program is done.
            environ: Added to the environment.
            cwd: The folder that `argv` runs in, by `env -C`, because this process and its threads stay where they are.
            keep: Whether what it leaves running lives on.
            ahead: How another process for such an order can be started before its program is there (spares.py).
        """
        self._pause_s = time.monotonic() - self._idle_since
        self._order = {**order, "file": {**order["file"], "text": ""}} if "file" in order else order
        environ = {**os.environ, **order.get("environ", {})}
        spare = self._spare(order, environ, descriptors)
        places = _Places(order) if spare is None else spare.held.of(order)
        try:
            answer = self._run(places, environ, descriptors, spare)
            shown = places.results()
            if shown:
                self._send({"ev": "display", "data": shown})
        except OSError as error:
            answer = {**_REFUSED, "error": _failure(error)}
        finally:
            places.clear()
        return answer

    def was_told(self) -> None:
        """The end of a run is told; there is time to start a process for the next one."""
        self._start_spare()
        self._idle_since = time.monotonic()

    def _start_spare(self) -> None:
        """Start a process for the next run where it is likely to be like the last two."""
        wanted = self.spares.is_wanted() and not self._order.get("keep") and not self._children.has_residents
        if self._next is None or not wanted:
            return
        way, kind = self._next
        places = _Places(self._order)
        try:
            argv = places.argv()
        except OSError:  # then it is made when it is needed, and who asks hears why it cannot be
            places.clear()
            return
        self.spares.start(kind, way, argv, places)

    def _spare(self, order: dict[str, Any], environ: dict[str, str], descriptors: list[int]) -> Spare[_Places] | None:
        way = way_of(order)
        if way is None or descriptors or order.get("cwd") is not None or not way.suits(environ):
            self._next = None
            self.spares.drop()
            return None
        kind = kind_of(order, environ)
        self._next = way, kind
        return self.spares.take(kind)

    def _run(
        self, places: _Places, environ: dict[str, str], descriptors: list[int], spare: Spare[_Places] | None
    ) -> dict[str, Any]:
        children = self._children
        with contextlib.ExitStack() as unused:
            if spare is not None:
                unused.callback(spare.end)
            children.close_memory(True)
            try:
                with Interrupts(children) as interrupts:
                    if spare is not None and self._is_used(spare, places):
                        unused.pop_all()
                        spare.close()
                        child, is_apart = spare.pid, spare.is_apart
                    else:
                        unused.close()
                        child, is_apart = self._start(places, environ, descriptors), False
                    try:
                        if is_apart and not places.has_folder and self._follows_at_once():
                            self._start_spare()
                        ended = children.wait_patiently(child, interrupts)
                    except OSError:  # it must not run on unseen
                        self.spares.end()
                        children.end_leftovers(child)
                        raise
                if not self._order.get("keep", False):
                    self._end_leftovers(child)
            finally:
                children.close_memory(False)
                reset_streams()
        if self._follows_at_once():
            self._start_spare()
        return {**outcome(ended), "interrupted": interrupts.first_at is not None and ended.code != 0}

    def _follows_at_once(self) -> bool:
        """Whether the next run is likely to come before a process for it could be ready."""
        return self._pause_s < _SOON_S

    def _end_leftovers(self, child: int) -> None:
        """End what a program has left running; what waits for the next one with it, unless there is nothing else."""
        if self.spares.is_one_there:
            if self._children.are_gone():
                return
            self.spares.end()
        self._children.end_leftovers(child)

    def _is_used(self, spare: Spare[_Places], places: _Places) -> bool:
        places.lay_out()
        return places.stand() and places.argv() == spare.argv and spare.goes_on(places.text)

    def _start(self, places: _Places, environ: dict[str, str], descriptors: list[int]) -> int:
        places.lay_out()
        argv = places.argv()
        if self._order.get("cwd") is not None:
            argv = ["env", "-C", self._order["cwd"], *argv]
        self.spares.begin_other()
        given = places.stdin() if places.is_stdin else descriptors[0] if descriptors else -1
        return self._children.start(argv, environ, {} if given < 0 else {0: given})


def reset_streams() -> None:
    """A program may have made the streams that it shares with the worker non-blocking; then it is so for both."""
    for stream in (1, 2):
        with contextlib.suppress(OSError):
            os.set_blocking(stream, True)


_REFUSED: dict[str, Any] = {"ok": False, "exit_code": 126, "exit_signal": None, "interrupted": False, "value": None}
"""A shell's code for what could not be started."""


def _failure(error: OSError) -> dict[str, Any]:
    return {"type": type(error).__name__, "message": f"the program could not be started: {error}", "traceback": ""}


class _Places:
    """Where a program's file and its results lie while it runs."""

    def __init__(self, order: dict[str, Any]) -> None:
        self._argv: list[Any] = order["argv"]
        self._file: dict[str, Any] | None = order.get("file")
        self._results: dict[str, str] = order.get("results", {})
        self._elsewhere = order.get("cwd") is not None
        self._folder = ""
        self._made: tuple[int, int] | None = None
        self._path = "" if self._file is None else self._file["name"]
        self._stdin = -1
        self.is_stdin = self._file is not None and self._file["where"] == "stdin"

    @property
    def has_folder(self) -> bool:
        """Whether anything lies in a folder of its own, where other programs would find it."""
        return bool(self._folder)

    @property
    def text(self) -> str:
        """The program's."""
        return "" if self._file is None else self._file["text"]

    def of(self, order: dict[str, Any]) -> _Places:
        """These, for another program."""
        self._file = order.get("file")
        return self

    def lay_out(self) -> None:
        """Write the program's file, unless it is standard input."""
        if self._file is None or self.is_stdin or self._made is not None:
            return
        name, data = self._file["name"], self._file["text"].encode("utf-8")
        if self._file["where"] == "workdir" and self._in_workdir(name, data):
            self._path = name
        else:
            self._path = os.path.join(self._private(), name)
            self._made = create_file(self._path, data)

    def stdin(self) -> int:
        """The program as standard input. Closed by `clear`."""
        self._stdin = os.memfd_create("program")
        _write(self._stdin, self.text.encode("utf-8"))
        os.lseek(self._stdin, 0, os.SEEK_SET)
        return self._stdin

    def argv(self) -> list[str]:
        """With the paths of the program's file and of the results, as things lie now."""
        return [self._place(part["place"]) if isinstance(part, dict) else part for part in self._argv]

    def _place(self, name: str) -> str:
        if self._file is not None and name == self._file["name"]:
            return os.path.abspath(self._path) if self._elsewhere else self._path
        return os.path.join(self._private(), name)

    def stand(self) -> bool:
        """Whether the folder is there that results are to lie in. One that was removed is made anew elsewhere."""
        if self._folder and not os.path.isdir(self._folder):
            self._folder = ""
            return False
        return True

    def results(self) -> dict[str, Any]:
        """A bundle of what was left as results. What is missing or no file is left out; what is too large is named."""
        found: dict[str, Any] = {}
        for name, media_type in self._results.items():
            with contextlib.suppress(OSError):
                content = _content(self._place(name), media_type)
                if content is None:
                    found["text/plain"] = f"{name} is too large to show: over {_MOST_RESULT_BYTES} bytes"
                else:
                    found[media_type] = content
        return found

    def clear(self) -> None:
        """Remove all that was made here, unless the program has put something else in its place."""
        if self._made is not None:
            with contextlib.suppress(OSError):
                found = os.lstat(self._path)
                if (found.st_dev, found.st_ino) == self._made:
                    os.unlink(self._path)
        if self._stdin >= 0:
            os.close(self._stdin)
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _in_workdir(self, name: str, data: bytes) -> bool:
        """Whether the file lies there now, be it that it did before."""
        try:
            self._made = create_file(name, data)
        except FileExistsError:
            return has_bytes(name, data)
        return True

    def _private(self) -> str:
        if not self._folder:
            self._folder = tempfile.mkdtemp(prefix="program-")
        return self._folder


def create_file(path: str, data: bytes) -> tuple[int, int]:
    """Write a new file; its device and inode. Raises OSError, FileExistsError if something is there."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o700)
    try:
        _write(descriptor, data)
        made = os.fstat(descriptor)
    except OSError:
        os.unlink(path)
        raise
    finally:
        os.close(descriptor)
    return made.st_dev, made.st_ino


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def has_bytes(path: str, data: bytes) -> bool:
    """Return whether a regular file there holds just these bytes."""
    found = os.lstat(path)
    if not stat.S_ISREG(found.st_mode) or found.st_size != len(data):
        return False
    with open(path, "rb") as file:
        return file.read() == data


def _content(path: str, media_type: str) -> str | None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:
        data = file.read(_MOST_RESULT_BYTES + 1)
    if len(data) > _MOST_RESULT_BYTES:
        return None
    text = media_type.startswith("text/") or media_type.endswith(("+xml", "+json", "/json"))
    return data.decode("utf-8", "replace") if text else base64.b64encode(data).decode("ascii")
