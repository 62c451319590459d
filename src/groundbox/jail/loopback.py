"""The guest's own loopback: the only interface in its network namespace.

It leads nowhere but to the guest's own processes, and to the listening socket that is made here,
before any code of the guest runs, and handed to the host: the host's proxy accepts on it.
"""

import fcntl
import socket
import struct
from typing import Final

PROXY_PORT: Final = 3128
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 1


def bring_up() -> None:
    """Switch the loopback interface on. Needs CAP_NET_ADMIN in the namespace's owner."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        request = struct.pack("16sh22x", b"lo", 0)
        flags = struct.unpack("16sh22x", fcntl.ioctl(probe, _GET_FLAGS, request))[1]
        fcntl.ioctl(probe, _SET_FLAGS, struct.pack("16sh22x", b"lo", flags | _UP))


def listen() -> socket.socket:
    """The socket that the host's proxy will accept on."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", PROXY_PORT))
    listener.listen(64)
    return listener
