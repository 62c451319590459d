"""Descriptors that a guest sends to the host beside its bytes: the host takes none.

Whoever drops a descriptor closes it, and a close can stand still: that of a TCP socket with SO_LINGER and unsent data
waits for as long as its owner chose, in the thread that dropped it. So nothing of that kind may come to the loop's
thread, neither by reading nor by closing a socket in which such a message still waits.

- Linux 6.16 and later has SO_PASSRIGHTS (socket(7)). Off on the host's end, a guest's `sendmsg` fails with EPERM.
- Elsewhere each read looks first (MSG_PEEK with no room for descriptors, which the kernel tells by MSG_CTRUNC). What
  brings one is a violation of the protocol and is left in the socket, and sockets are closed in a thread.

A socket pair has a host's end and a guest's; the option is of the end that receives, so the guest cannot set it back.
"""

from __future__ import annotations

import socket
import threading
from typing import Final

from groundbox.errors import WireError

_PASSRIGHTS: Final = 83  # asm-generic/socket.h; x86_64, aarch64 and riscv64 have that one


class GuestSocket:
    """The host's end of a socket pair whose other end a guest holds, or will hold."""

    def __init__(self, sock: socket.socket) -> None:
        """Takes ownership. Descriptors are still let through until `refuse_descriptors`."""
        sock.setblocking(False)
        self.socket = sock
        self._refuses = False

    def refuse_descriptors(self) -> None:
        """From now on none comes in; what was sent before is not affected."""
        try:
            self.socket.setsockopt(socket.SOL_SOCKET, _PASSRIGHTS, 0)
            self._refuses = True
        except OSError:  # ENOPROTOOPT: a kernel before 6.16
            self._refuses = False

    def fileno(self) -> int:
        """-1 once it is closed."""
        return self.socket.fileno()

    def receive(self, size: int) -> bytes:
        """Up to `size` bytes; empty at the end.

        Raises:
            BlockingIOError: There is nothing now.
            OSError: The connection is broken.
            WireError: A descriptor came along. The guest must be ended.
        """
        if self._refuses:
            return self.socket.recv(size)
        data, _, flags, _ = self.socket.recvmsg(size, 0, socket.MSG_PEEK)
        if flags & socket.MSG_CTRUNC:
            raise WireError("a guest sent a descriptor")
        return self.socket.recv(len(data)) if data else b""

    def close(self) -> None:
        """Close it without waiting for anything. Idempotent."""
        if self.socket.fileno() < 0:
            return
        if self._refuses:
            self.socket.close()
            return
        aside = socket.socket(fileno=self.socket.detach())
        threading.Thread(target=aside.close, name="groundbox-close", daemon=True).start()
