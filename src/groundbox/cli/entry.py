"""Where `groundbox` begins.

`groundbox run` is handed to a process of the engine in the background that has imported all that it needs
(`groundbox.cli.forked`), with our streams, folder, environment and signals: what it does there is what it would do
here. So little is imported for that, and only modules of the interpreter's own. Where there is no such process, or it
is of another kind of interpreter, the command line is imported and does the work here.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

_BEGIN_S: Final = 10.0
"""A process that does not answer for so long is left alone, and does nothing."""
_INTERRUPT, _TERMINATE, _HANG_UP = 2, 15, 1
STARTED: Final = b"s"
"""Of that process: the program is its own from here on. Whoever hears anything else has it still."""


def main() -> Any:
    """Run the command line, and exit."""
    if sys.argv[1:2] == ["run"] and "--no-engine" not in sys.argv:
        status = _handed_over()
        if status is not None:
            _end(status)
    from groundbox.cli.main import main as whole

    return whole()


def start() -> tuple[Any, ...]:
    """Facts in which two processes must not differ, if one is to do the work of the other.

    They are what an interpreter reads once, when it starts, and which files their paths mean.
    """
    names = ("PYTHON", "LC_", "LANG")
    environ = {name: value for name, value in os.environ.items() if name.startswith(names)}
    root = os.stat("/")
    files = os.readlink("/proc/self/ns/mnt"), root.st_dev, root.st_ino
    return tuple(sys.flags), list(sys.warnoptions), dict(sys._xoptions), environ, files


def _handed_over() -> int | None:
    """The wait status of the process that did the work, or None where it has not begun."""
    from groundbox.remote import place

    if place.is_off():
        return None
    try:
        import _signal  # type: ignore[import-not-found]  # `signal` and `socket` would import enum and more
        import _socket
        import marshal

        for stream in (0, 1, 2):
            os.fstat(stream)  # of one that is closed, the socket would take the number
        facts = start()
        link = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
        link.connect(place.path_of("run"))
        here = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (ImportError, OSError, place.NoPlace):
        return None
    umask = os.umask(0o077)
    os.umask(umask)
    came: list[int] = []

    def forward(number: int, _: object) -> None:
        came.append(number)
        try:
            link.send(bytes((number,)), _socket.MSG_DONTWAIT)
        except OSError:
            pass  # it has ended in this moment

    former = {number: _signal.getsignal(number) for number in (_INTERRUPT, _TERMINATE, _HANG_UP)}
    ignored = [number for number, handler in former.items() if handler == _signal.SIG_IGN]
    for number in former.keys() - ignored:
        _signal.signal(number, forward)
    asked = marshal.dumps((sys.argv, dict(os.environ), umask, ignored, facts))
    data = len(asked).to_bytes(4, "little") + asked
    descriptors = b"".join(each.to_bytes(4, sys.byteorder) for each in (0, 1, 2, here))
    try:
        sent = link.sendmsg([data], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptors)])
        link.sendall(data[sent:])
        link.settimeout(_BEGIN_S)
        try:
            has_begun = link.recv(1) == STARTED
        except TimeoutError:
            link.shutdown(_socket.SHUT_RD)  # it cannot begin any more; unless it has in this moment
            has_begun = link.recv(1) == STARTED
    except OSError:
        has_begun = False
    if not has_begun:
        link.close()
        os.close(here)
        for number, handler in former.items():
            _signal.signal(number, handler)
        for number in came:
            os.kill(os.getpid(), number)
        return None
    link.settimeout(None)
    told = b""
    while len(told) < 4:
        part = link.recv(4 - len(told))
        if not part:
            os.write(2, b"groundbox: the engine in the background: it ended in the middle of this call\n")
            return 3 << 8
        told += part
    return int.from_bytes(told, "little")


def _end(status: int) -> None:
    """Exit as a process with this wait status did. Nothing is buffered here that would have to be written."""
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        import _signal

        if -code not in (_signal.SIGKILL, _signal.SIGSTOP):
            _signal.signal(-code, _signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)
