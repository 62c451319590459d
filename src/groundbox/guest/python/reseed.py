"""Randomness of its own for every fork of a template.

Forked children share the state of every generator that was seeded before the fork;
two sandboxes would draw the same "random" numbers. numpy never reseeds by itself, and
Python's `random` only with `os.fork`. `os.urandom`, `uuid4` and `numpy.random.default_rng()`
ask the kernel and need nothing.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Final

_KEY_BYTES: Final = 64


def reseed() -> None:
    """Reseed what is imported; nothing is imported for it."""
    modules = sys.modules
    random: Any = modules.get("random")
    if random is not None:
        random.seed()
    numpy_random: Any = modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed(int.from_bytes(os.urandom(4), "little"))
    tempfile: Any = modules.get("tempfile")
    if tempfile is not None:
        tempfile._name_sequence = tempfile.tempdir = None


def start_keys() -> None:
    """In a worker that will be copied: let OpenSSL make its generator, which takes milliseconds in each copy else.

    Never in a template: OpenSSL notices a fork by another process id, and the first child of each sandbox has the
    number that the template has in its own namespace, so that all of them would draw the same.
    """
    ssl: Any = sys.modules.get("_ssl")
    if ssl is not None:
        ssl.RAND_bytes(1)


def renew_keys() -> None:
    """Let OpenSSL draw other bytes than whoever this process was copied from, for keys and nonces.

    It notices a fork by the id of the process, which is 1 in every sandbox. What it is given it takes before it draws
    again. A library that brings an OpenSSL of its own, as wheels of `cryptography` do, is not reached.
    """
    ssl: Any = sys.modules.get("_ssl")
    if ssl is not None:
        ssl.RAND_add(os.urandom(_KEY_BYTES), float(_KEY_BYTES))
