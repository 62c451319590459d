"""Process 1 of a container in gVisor: `python -s -P -S inside.py HEAP_BYTES`, with the host's relay on its streams.

It starts the template (boot.py) as its child and passes on between the two (relay.py). It runs no guest's code, and
everything in the container ends with it.
"""

import contextlib
import os
import socket
import sys
import time

_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_GROUPS = "/tmp/groups"
_LOOK_S, _IDLE_MS = 0.1, 1000


def main() -> None:
    """Start the template, then relay until either side is gone."""
    sys.path.insert(0, os.path.dirname(_OWN))
    from groundbox.jail import kernel
    from groundbox.template import relay

    folders = {}
    os.mkdir(_GROUPS, 0o700)
    for controller in ("pids", "cpuacct"):
        folders[controller] = f"{_GROUPS}/{controller}"
        os.mkdir(folders[controller], 0o700)
        kernel.mount("none", folders[controller], "cgroup", 0, controller)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    reader, writer = os.dup(0), os.dup(1)
    for descriptor in (reader, writer):
        os.set_inheritable(descriptor, False)
        os.set_blocking(descriptor, False)
    nothing = os.open("/dev/null", os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    template = os.fork()
    if template == 0:
        os.set_inheritable(theirs.fileno(), True)
        boot = f"{_OWN}/template/boot.py"
        os.execv(sys.executable, [sys.executable, "-s", "-P", "-S", boot, str(theirs.fileno()), sys.argv[1]])
    theirs.close()
    mux = relay.Inside(reader, writer, ours, relay.Groups(folders))
    looked, any_lent = time.monotonic(), False
    try:
        while True:
            mux.step(int(_LOOK_S * 1000) if any_lent else _IDLE_MS)
            if time.monotonic() - looked > _LOOK_S:
                any_lent = mux.look()
                looked = time.monotonic()
                with contextlib.suppress(ChildProcessError):
                    while os.waitpid(-1, os.WNOHANG)[0]:
                        pass
    except relay.Broken as broken:
        sys.stderr.write(f"groundbox: {broken}\n")  # the template's log
    finally:
        os._exit(1)


if __name__ == "__main__":
    main()
