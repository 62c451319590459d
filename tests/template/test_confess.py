"""A worker that cannot enter its jail says why, on the socket that it was given."""

import gc
import os
import socket

from groundbox.template import serve


def test_who_confesses_closes_no_descriptor_that_others_share():
    """A keeper has those of its template: a number that it closed would be given away, and then overwritten."""
    ours, theirs = socket.socketpair()
    number = theirs.detach()

    serve._confess(socket.socket(fileno=number), OSError(1, "no"))
    gc.collect()

    assert ours.recv(100)[4:] == b'{"ev": "failed", "reason": "no"}'
    os.close(number)  # it was there
    ours.close()
