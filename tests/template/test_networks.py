"""Network namespaces that serve one worker after the other."""

import subprocess
import sys

import pytest

PROGRAM = """
import os, socket
from groundbox.jail import namespaces
from groundbox.template.networks import Networks

if os.geteuid() != 0:
    namespaces.unshare(namespaces.NEWUSER)
networks = Networks()
first = networks.enter_one()
name = os.readlink("/proc/self/ns/net")
left = socket.socket(socket.AF_UNIX)
LEAVE
networks.give_back(first)
networks.enter_one()
print(name == os.readlink("/proc/self/ns/net"))
"""


@pytest.mark.parametrize(
    ("leave", "served_again"),
    [
        ("left.close()", "True\n"),
        ("left.bind(chr(0) + 'name')", "False\n"),
        ("pass", "False\n"),
        ("a, b = socket.socketpair(); socket.send_fds(a, [b'x'], [left.fileno()]); left.close()", "False\n"),
    ],
    ids=["nothing", "a name", "a socket without a name", "a socket in a message"],
)
def test_a_namespace_with_a_socket_in_it_serves_nobody_again(leave: str, served_again: str) -> None:
    program = PROGRAM.replace("LEAVE", leave)

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout == served_again
