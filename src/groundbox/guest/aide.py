"""The aide: a process of the worker's that takes small orders while a run keeps the worker busy.

The worker obeys one order after another, and a cell may take hours. An aide is a fork of the worker, made between two
runs, with a socket of its own to the host: it handles files and starts programs as the worker does, and runs no cell.
What it starts lives below supervisors of its own (processes.py), so that all of it outlives the end of a run; it ends
with the worker. It has the current folder and the environment that the worker had when it was forked.

Like all that the worker says, its answers are claims: a guest can stop, kill or imitate it.
"""

import gc
import os
import signal
import socket
from collections.abc import Callable
from typing import Any, NoReturn

from .children import Children
from .files import Files, refused
from .processes import PR_SET_PDEATHSIG, PRCTL, Processes, close_all_but, moved_above_streams
from .wire import HostGone, Wire

LimitSetter = Callable[[float | None, int | None], None]


def start_aide(children: Children, workdir: str, set_limits: LimitSetter, descriptors: list[int]) -> dict[str, Any]:
    """Fork the aide, whose end of its socket is the order's one descriptor; the answer is as of every order."""
    worker = os.getpid()
    children.close_memory(True)  # before the fork, so that the aide is closed from its first moment
    try:
        aide = os.fork()
        if aide == 0:
            _live(descriptors[0], worker, workdir, set_limits)
    except OSError as error:
        return refused(error)
    finally:
        children.close_memory(False)
    children.spare(aide)
    return {"ok": True}


def _live(descriptor: int, worker: int, workdir: str, set_limits: LimitSetter) -> NoReturn:
    """Obey until the host closes the socket, or the worker ends."""
    try:
        os.setsid()  # so that a signal to the worker's group does not come here
        PRCTL(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != worker:
            os._exit(0)
        gc.disable()  # a collection would write to pages that are shared until then
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        set_limits(None, None)
        kept = moved_above_streams(descriptor)
        nothing = moved_above_streams(os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC))
        for stream in range(3):
            os.dup2(nothing, stream, inheritable=False)
        close_all_but({0, 1, 2, kept})
        _obey(Wire(socket.socket(fileno=kept)), Files(workdir), Processes(_own_children(), set_limits))
    except HostGone:
        pass
    finally:
        os._exit(0)


def _own_children() -> Children:
    return Children(alone=False, guarded=False)  # it was forked closed, and stays so


def _obey(wire: Wire, files: Files, processes: Processes) -> NoReturn:
    """Carry out orders, one after the other.

    Raises:
        HostGone: The host has closed the socket.
    """
    orders = {
        "put": files.put,
        "mkdir": files.mkdir,
        "remove": files.remove,
        "get": files.get,
        "stat": files.stat,
        "scan": files.scan,
        "realpath": files.realpath,
        "start": processes.start,
    }
    while True:
        order, descriptors = wire.receive()
        answer = orders[order["op"]](order, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        wire.send({"ev": "done", "id": order["id"], **answer})
