"""Chance: what a run draws that another run need not draw again, and memory that holds something else.

For a run whose result is to be the same whenever the program runs. `arm` is called in the worker before the program,
`told` after it. Nothing of it is done in any other run: functions of `random`, `time` and `datetime` are replaced by
ones that note who calls them, which a program can see if it looks.

Filling. glibc sets what malloc hands out to a byte of ours (M_PERTURB, mallopt(3)), also where the kernel's pages
would be zero; calloc still gives zeros. Two stores hand out blocks as they were left, past M_PERTURB: malloc's own of
small blocks for each thread, and numpy's of blocks under 1024 bytes. So numpy is given a handler of memory (NEP 49)
that asks `memalign` for cache lines: it looks into neither. Of small blocks that other libraries take by malloc, some
stay as they were left. Without glibc nothing is filled.

Watching. A generator that all programs share, that of `random` or of `numpy.random`, counts as drawn from if its state
is another one when the program ends, or sets it, than when the program began; once the program has set it, no more. The
kernel's random numbers count when the program, or a library that it calls, asks for them: for themselves (`os.urandom`,
`secrets`, `uuid4`), or for the seed of a generator without one; not while a module is imported. The clock counts when
the program itself reads it, and not when a library does, such as one that writes a log. What is noted lies in memory
that a script shares with the worker, so that it is there however the script ends; only a changed state is not noticed
then.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any, Final

from .after_import import after_import

RANDOM: Final = "random"
NUMPY: Final = "numpy.random"
ENTROPY: Final = "entropy"
CLOCK: Final = "clock"
KINDS: Final = (RANDOM, NUMPY, ENTROPY, CLOCK)

_M_PERTURB: Final = -6  # malloc.h
_SET_HANDLER, _DEFAULT_HANDLER = 304, 306
"""Places of PyDataMem_SetHandler and PyDataMem_DefaultHandler in numpy's table of functions, a part of its ABI."""
_CACHE_LINE: Final = 64
_OWN_MODULES: Final = ("__main__", "program")
"""Names of the module that a program runs as: scripts.py and calls.py."""
_ENTROPY: Final = {"os": ("urandom", "getrandom"), "random": ("_urandom",)}
_CLOCKS: Final = {
    "time": 0,
    "time_ns": 0,
    "monotonic": 0,
    "monotonic_ns": 0,
    "perf_counter": 0,
    "perf_counter_ns": 0,
    "process_time": 0,
    "process_time_ns": 0,
    "thread_time": 0,
    "thread_time_ns": 0,
    "clock_gettime": 0,
    "clock_gettime_ns": 0,
    "localtime": 1,
    "gmtime": 1,
    "ctime": 1,
    "asctime": 1,
    "strftime": 2,
}
"""Functions of `time`, and which argument, counted from 1, is a time that makes them read none; 0 for no argument."""


def arm(*, fill: int, watch: bool) -> None:
    """Have memory hold something else from now on, and note what the next program draws.

    Args:
        fill: Byte that memory holds which nobody has written to.
        watch: Whether to note; else memory is filled only.
    """
    global _armed
    _armed = True
    _fill(fill)
    if watch:
        _WATCH.append(_Watch())
        _WATCH[0].install()
        begin()


def is_armed() -> bool:
    """Whether a program armed this process, so that programs are forked from it and from no other."""
    return _armed


def begin() -> None:
    """Take the generators as they are now for those that the program finds."""
    for watch in _WATCH:
        watch.begin()


def end() -> None:
    """The program has ended: note which generators it left changed, and nothing more from now on."""
    for watch in _WATCH:
        watch.end()


def unwatched(change: Callable[[], None]) -> None:
    """Have something changed that is no deed of the program, and is as if it had always been so."""
    for watch in _WATCH:
        watch.on = False
    change()
    begin()


def told() -> list[str]:
    """Which of KINDS the program drew from."""
    end()
    return [kind for watch in _WATCH for kind, noted in zip(KINDS, watch.noted[:], strict=True) if noted]


class _Handler(ctypes.Structure):
    """PyDataMem_Handler of numpy/ndarraytypes.h, version 1."""

    _fields_ = (
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("context", ctypes.c_void_p),
        *((name, ctypes.c_void_p) for name in ("malloc", "calloc", "realloc", "free")),
    )


_HANDLER: Final = _Handler()
"""numpy keeps its address for as long as there are arrays."""


def _fill(byte: int) -> None:
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(_M_PERTURB, byte ^ 0xFF)  # what is freed gets the byte given here, what is handed out its contrary
        after_import("numpy", _hand_out_filled)


def _hand_out_filled(numpy: Any) -> None:
    """Have numpy ask `memalign` for each array. Its functions for memory ignore their context; `memalign` takes it."""
    api = ctypes.pythonapi
    pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", api))
    capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
        ("PyCapsule_New", api)
    )
    core = sys.modules.get("numpy._core._multiarray_umath") or sys.modules["numpy.core._multiarray_umath"]
    functions = ctypes.cast(pointer_of(core._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))
    default = ctypes.cast(functions[_DEFAULT_HANDLER], ctypes.POINTER(ctypes.py_object))[0]
    ctypes.memmove(ctypes.byref(_HANDLER), pointer_of(default, b"mem_handler"), ctypes.sizeof(_Handler))
    if _HANDLER.version != 1 or _HANDLER.name != b"default_allocator":
        return
    _HANDLER.name, _HANDLER.context = b"filled", _CACHE_LINE
    _HANDLER.malloc = ctypes.cast(ctypes.CDLL(None).memalign, ctypes.c_void_p).value
    set_handler = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(functions[_SET_HANDLER])
    set_handler(capsule(ctypes.addressof(_HANDLER), b"mem_handler", None))


class _Generator:
    """A generator that all programs share: its state when the program began, and whether that has set it since."""

    def __init__(self, kind: str, state: Callable[[], Any]) -> None:
        self.kind, self._state = kind, state
        self._first: Any = None
        self.is_set = False

    def begin(self) -> None:
        self._first, self.is_set = self._state(), False

    def is_drawn(self) -> bool:
        """Whether somebody drew from it who had not set it."""
        return not self.is_set and self._state() != self._first

    def is_fresh(self) -> bool:
        """Whether it is as the program found it."""
        return bool(self._state() == self._first)


class _Watch:
    """What one program draws.

    Attributes:
        on: Whether what happens now is the program's doing.
        noted: A byte for each of KINDS.
    """

    def __init__(self) -> None:
        import mmap

        self.on = False
        self.noted = mmap.mmap(-1, len(KINDS))
        self._generators: list[_Generator] = []
        self._unseeded = 0

    def install(self) -> None:
        """Put functions that note in the place of those that a program calls."""
        for module, names in _ENTROPY.items():
            after_import(module, functools.partial(self._replace, names=names, note=self._note_entropy))
        after_import("time", self._watch_clocks)
        after_import("datetime", self._watch_dates)
        after_import("uuid", functools.partial(self._replace, names=("uuid1",), note=self._note_entropy))
        self._watch_random()
        after_import("numpy.random", self._watch_numpy)

    def begin(self) -> None:
        for generator in self._generators:
            generator.begin()
        self.on = True

    def end(self) -> None:
        if self.on:
            for generator in self._generators:
                self._note_draws(generator)
            if self._unseeded:
                self._note(ENTROPY)
        self.on = False

    def _note(self, kind: str) -> None:
        self.noted[KINDS.index(kind)] = 1

    def _note_draws(self, generator: _Generator) -> None:
        if generator.is_drawn():
            self._note(generator.kind)

    def _note_entropy(self, caller: types.FrameType | None, arguments: Sequence[Any] = ()) -> None:
        if self.on and _is_for_program(caller):
            self._note(ENTROPY)

    def _note_clock(self, caller: types.FrameType | None) -> None:
        if self.on and caller is not None and _is_own(caller):
            self._note(CLOCK)

    def _replace(self, module: Any, *, names: Sequence[str], note: Callable[..., None]) -> None:
        for name in names:
            original = getattr(module, name, None)
            if original is not None:
                setattr(module, name, _noting(original, note))

    def _watch_clocks(self, time: Any) -> None:
        for name, place in _CLOCKS.items():
            note = functools.partial(self._note_clock_without, place)
            self._replace(time, names=(name,), note=note)

    def _note_clock_without(self, place: int, caller: types.FrameType | None, arguments: Sequence[Any]) -> None:
        if not place or len(arguments) < place or arguments[place - 1] is None:
            self._note_clock(caller)

    def _watch_dates(self, datetime: Any) -> None:
        """Classes of C take no new attribute: their dictionaries do, when the interpreter is told."""
        modified = ctypes.PYFUNCTYPE(None, ctypes.py_object)(("PyType_Modified", ctypes.pythonapi))
        for kind, names in ((datetime.date, ("today",)), (datetime.datetime, ("now", "utcnow", "today"))):
            (namespace,) = gc.get_referents(vars(kind))
            for name in names:
                if name in namespace:
                    namespace[name] = classmethod(self._noting_date(namespace[name]))
            modified(kind)

    def _noting_date(self, original: Any) -> Callable[..., Any]:
        def date(cls: type, *args: Any, **kwargs: Any) -> Any:
            self._note_clock(sys._getframe(1))
            return original.__get__(None, cls)(*args, **kwargs)

        return date

    def _watch_random(self) -> None:
        import random

        shared: Any = random._inst
        generator = _Generator(RANDOM, shared.getstate)
        self._generators.append(generator)
        seed_of, set_of = random.Random.seed, random.Random.setstate

        def seed(self: Any, a: Any = None, version: int = 2) -> None:
            if a is None:
                watch._note_entropy(sys._getframe(1))
            elif self is shared:
                watch._is_set(generator)
            seed_of(self, a, version)

        def setstate(self: Any, state: Any) -> None:
            if self is not shared:
                set_of(self, state)
                return
            watch._note_draws_of_program(generator)
            set_of(self, state)
            generator.is_set = watch.on and not generator.is_fresh()

        watch = self
        random.Random.seed, random.Random.setstate = seed, setstate  # type: ignore[method-assign]
        random.seed, random.setstate = shared.seed, shared.setstate

    def _watch_numpy(self, numpy_random: Any) -> None:
        def state() -> Any:
            _, keys, *rest = numpy_random.get_state()
            return keys.tobytes(), rest

        generator = _Generator(NUMPY, state)
        self._generators.append(generator)
        generator.begin()
        seed_of, set_of = numpy_random.seed, numpy_random.set_state

        def seed(seed: Any = None) -> None:
            if seed is not None:
                self._is_set(generator)
            seed_of(seed)

        def set_state(state: Any) -> None:
            self._note_draws_of_program(generator)
            set_of(state)
            generator.is_set = self.on and not generator.is_fresh()

        numpy_random.seed, numpy_random.set_state = seed, set_state
        self._watch_random_states(numpy_random.mtrand)

    def _watch_random_states(self, mtrand: Any) -> None:
        """`RandomState(5)`, too, makes a generator without a seed, and then gives it one: it counts if it gets none."""
        if not hasattr(mtrand, "_MT19937"):
            return
        watch, original = self, mtrand._MT19937

        class Kind(type):
            def __instancecheck__(cls, other: object) -> bool:
                return isinstance(other, original)  # numpy asks it of generators that were there before

        class MT19937(original, metaclass=Kind):  # type: ignore[misc,valid-type]  # states tell the name of the class
            def __init__(self) -> None:
                self._counts = watch.on and _is_for_program(sys._getframe(1))
                watch._unseeded += self._counts
                was_on, watch.on = watch.on, False
                try:
                    super().__init__()
                finally:
                    watch.on = was_on

            def _legacy_seeding(self, seed: Any) -> Any:
                if seed is not None and self._counts:
                    self._counts = False
                    watch._unseeded -= 1
                return super()._legacy_seeding(seed)

        mtrand._MT19937 = MT19937

    def _is_set(self, generator: _Generator) -> None:
        """The program gives a generator a seed of its own."""
        self._note_draws_of_program(generator)
        generator.is_set = generator.is_set or self.on

    def _note_draws_of_program(self, generator: _Generator) -> None:
        if self.on:
            self._note_draws(generator)


_armed = False
_WATCH: Final[list[_Watch]] = []
"""The watch of this worker, once it is armed."""


def _noting(original: Callable[..., Any], note: Callable[..., None]) -> Callable[..., Any]:
    @functools.wraps(original)
    def noting(*args: Any, **kwargs: Any) -> Any:
        note(sys._getframe(1), args)
        return original(*args, **kwargs)

    return noting


def _is_own(frame: types.FrameType) -> bool:
    return frame.f_globals.get("__name__") in _OWN_MODULES


def _is_for_program(frame: types.FrameType | None) -> bool:
    """Whether the program is among the callers, and no import nearer than it: modules seed what they may never use."""
    while frame is not None:
        if _is_own(frame):
            return True
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return False
        frame = frame.f_back
    return False
