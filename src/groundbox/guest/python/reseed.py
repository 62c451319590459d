"""Randomness of its own for every fork of a template.

Forked children share the state of every generator that was seeded before the fork;
two sandboxes would draw the same "random" numbers. numpy never reseeds by itself, nor
does sympy, which has a generator of its own, and Python's `random` only with `os.fork`.
`os.urandom`, `uuid4` and `numpy.random.default_rng()` ask the kernel and need nothing.
"""

from __future__ import annotations

import ctypes
import os
import random
import sys
from collections.abc import Callable
from typing import Any, Final

_KEY_BYTES: Final = 64
_STATE_BYTES: Final = 624 * 4
"""Of MT19937: 624 words, which the place of the next one to draw follows."""
_REHEARSALS: Final = 12
_FRESH: Final[list[Callable[[], object]]] = []


def reseed() -> None:
    """Reseed what is imported; nothing is imported for it."""
    modules = sys.modules
    imported: Any = modules.get("random")  # a program may have imported it anew
    if imported is not None:
        imported.seed()
    numpy_random: Any = modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed(int.from_bytes(os.urandom(4), "little"))
    if (of_sympy := _of_sympy()) is not None:
        of_sympy.seed()
    tempfile: Any = modules.get("tempfile")
    if tempfile is not None:
        tempfile._name_sequence = tempfile.tempdir = None


def prepare() -> None:
    """In a template, as the last that draws from a generator: have all that `reseed_launched` needs at hand."""
    reseed()
    shared: list[Any] = [each for each in (random._inst, _of_sympy()) if each is not None]
    _FRESH[:] = [super(random.Random, each).seed for each in shared]  # of C: the rest of `seed` has been done
    numpy_random: Any = sys.modules.get("numpy.random")
    if numpy_random is not None:
        _FRESH.append(_numpy_state(numpy_random) or reseed)
    for _ in range(_REHEARSALS):
        reseed_launched()


def reseed_launched() -> None:
    """`reseed` in a process that a template made, before any guest code: a few pages less are written to."""
    for seed in _FRESH:
        seed()


def _of_sympy() -> Any:
    return getattr(sys.modules.get("sympy.core.random"), "rng", None)


def _numpy_state(numpy_random: Any) -> Callable[[], None] | None:
    """What fills the state of numpy's shared generator with random bytes; None where it is not found.

    numpy documents where the state is (`BitGenerator.ctypes`), and not what it looks like: so that is tried.
    """
    try:
        address = numpy_random.mtrand._rand._bit_generator.ctypes.state_address
    except AttributeError:
        return None
    state = (ctypes.c_char * _STATE_BYTES).from_address(address)
    before, tried = state.raw, os.urandom(_STATE_BYTES)
    kind, words, place, has_gauss, _ = numpy_random.get_state()
    if kind != "MT19937" or words.tobytes() != before or place != _STATE_BYTES // 4 or has_gauss:
        return None
    state.raw = tried
    if numpy_random.get_state()[1].tobytes() != tried:
        return None

    def fill() -> None:
        state.raw = os.urandom(_STATE_BYTES)

    return fill


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
