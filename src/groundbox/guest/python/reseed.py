"""Randomness of its own for every fork of a template.

Forked children share the state of every generator that was seeded before the fork;
two sandboxes would draw the same "random" numbers. numpy never reseeds by itself, nor
does sympy, which has a generator of its own, nor do SQLite, DuckDB, libuuid and the key of
multiprocessing; Python's `random` does only with `os.fork`.
`os.urandom`, `uuid4` and `numpy.random.default_rng()` ask the kernel and need nothing.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import random
import struct
import sys
from collections.abc import Callable
from typing import Any, Final

_KEY_BYTES: Final = 64
_AUTHKEY_BYTES: Final = 32
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
        _reseed_numpy(numpy_random)
    if (of_sympy := _of_sympy()) is not None:
        of_sympy.seed()
    renew_authkey()
    tempfile: Any = modules.get("tempfile")
    if tempfile is not None:
        tempfile._name_sequence = tempfile.tempdir = None


def reseed_libraries() -> None:
    """In a copy that a program made its state in: reseed what only a program can have drawn from.

    A library that cannot be reseeded keeps its state; that is no reason to refuse the copy.
    """
    for name, renew in _LIBRARIES.items():
        module: Any = sys.modules.get(name)
        if module is not None:
            with contextlib.suppress(Exception):  # of any kind: it is the library's, or what the program made of it
                renew(module)


def renew_authkey() -> None:
    """Draw another key for connections of multiprocessing, which is drawn when it is imported."""
    process: Any = sys.modules.get("multiprocessing.process")
    if process is not None:
        with contextlib.suppress(AttributeError, TypeError):
            current = process.current_process()
            if len(current.authkey) == _AUTHKEY_BYTES:  # a key of the program's own may have another length
                current.authkey = os.urandom(_AUTHKEY_BYTES)


def _renew_uuid(uuid: Any) -> None:
    """Give `uuid1` another node. libuuid, which cannot be reseeded, is not asked any more."""
    multicast = 1 << 40  # RFC 9562: a node that is no hardware address has this bit
    uuid._node = int.from_bytes(os.urandom(6), "little") | multicast
    uuid._generate_time_safe = None
    for name in ("_last_timestamp", "_last_timestamp_v6", "_last_timestamp_v7"):
        if hasattr(uuid, name):
            setattr(uuid, name, None)


def _renew_sqlite(module: Any) -> None:
    """Have SQLite, which has one generator for all connections, ask the kernel for a seed at its next use."""
    ctypes.CDLL(getattr(module, "__file__", None)).sqlite3_randomness(0, None)


def _renew_duckdb(duckdb: Any) -> None:
    """Reseed each connection that the program can still reach; they have a generator each."""
    connection = duckdb.DuckDBPyConnection
    held = [each for each in gc.get_referents(*gc.get_objects()) if type(each) is connection]
    for each in {id(each): each for each in held}.values():
        with contextlib.suppress(Exception):  # it is closed, or in a transaction that has failed
            each.sql(f"SELECT setseed({int.from_bytes(os.urandom(4), 'little') / 2**31 - 1})").fetchall()


_LIBRARIES: Final[dict[str, Callable[[Any], object]]] = {
    "uuid": _renew_uuid,
    "_sqlite3": _renew_sqlite,
    "duckdb": _renew_duckdb,
}


def _reseed_numpy(numpy_random: Any) -> None:
    try:
        numpy_random.seed(struct.unpack("8I", os.urandom(32)))
    except TypeError:  # the program has set another generator than MT19937 for all
        with contextlib.suppress(AttributeError):
            numpy_random.set_bit_generator(type(numpy_random.get_bit_generator())())


def prepare() -> None:
    """In a template, as the last that draws from a generator: have all that `reseed_launched` needs at hand."""
    reseed()
    shared: list[Any] = [each for each in (random._inst, _of_sympy()) if each is not None]
    _FRESH[:] = [super(random.Random, each).seed for each in shared]  # of C: the rest of `seed` has been done
    numpy_random: Any = sys.modules.get("numpy.random")
    if numpy_random is not None:
        _FRESH.append(_numpy_state(numpy_random) or reseed)
    if "multiprocessing.process" in sys.modules:
        _FRESH.append(renew_authkey)
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
