"""Records of a trace as values, and their strict decoding. docs/trace.md says what each means."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import msgspec

SCHEMA: Final = "groundbox.trace/2"
SCHEMA_1: Final = "groundbox.trace/1"
"""Without records of tests and iterations. It can be read."""

V: TypeAlias = Any
"""A value as docs/trace.md writes it: an atom, or a dict with one main key. Checked by `value.check`."""


# Strict, since nobody knows what a field that is not known here would change of a record's meaning.
class _Record(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="k", omit_defaults=True, gc=False
):
    """Left out by the garbage collector: what is read from JSON has no cycles."""


class AtLine(_Record, frozen=True, kw_only=True):
    """A record of what a frame does in a line."""

    f: int
    n: int


class Content(_Record, frozen=True, kw_only=True):
    """A record of what an object holds.

    A subclass has its own fields not by keyword only, so that they stand before these.
    """

    items: list[V] | None = None
    pairs: list[tuple[V, V]] | None = None
    attrs: dict[str, V] | None = None
    tail: list[V] | None = None
    elided: int = 0
    hex: str | None = None
    len: int | None = None
    maxlen: int | None = None
    dtype: str | None = None
    shape: list[int] | None = None


class Call(_Record, frozen=True, kw_only=True, tag="call"):
    """User code was called by frame `p`, or by none (0)."""

    f: int
    p: int
    name: str
    n: int
    args: dict[str, V] = {}
    body: bool = False
    thread: str | None = None


class Line(AtLine, frozen=True, kw_only=True, tag="line"):
    """A line is about to run."""


class Set(_Record, frozen=True, kw_only=True, tag="set"):
    """A name took a value."""

    f: int
    name: str
    v: V
    scope: str | None = None


class Del(_Record, frozen=True, kw_only=True, tag="del"):
    """A name has no value any more."""

    f: int
    name: str
    scope: str | None = None


class Object(Content, frozen=True, tag="object"):
    """The first description of an object that has an identity."""

    id: int
    type: str
    # Named otherwise where the word is Python's own.
    class_: str | None = msgspec.field(default=None, name="class")


class Mutate(Content, frozen=True, tag="mutate"):
    """A change of an object."""

    id: int
    op: str
    at: list[V] | None = None
    start: int | None = None
    removed: int | None = None


class Return(AtLine, frozen=True, kw_only=True, tag="return"):
    """A frame returned."""

    v: V


class Yield(AtLine, frozen=True, kw_only=True, tag="yield"):
    """A generator or coroutine gave a value and waits."""

    v: V


class Resume(_Record, frozen=True, kw_only=True, tag="resume"):
    """It goes on."""

    f: int
    p: int
    n: int


class Raise(AtLine, frozen=True, kw_only=True, tag="raise"):
    """An exception came up in a line, or came into it out of frame `from_`."""

    type: str
    args: list[V] = []
    from_: int | None = msgspec.field(default=None, name="from")


class Unwind(AtLine, frozen=True, kw_only=True, tag="unwind"):
    """A frame was left by an exception."""


class Out(_Record, frozen=True, kw_only=True, tag="out"):
    """Text written to standard output (1) or standard error (2)."""

    s: int
    text: str
    tail: str = ""
    elided: int = 0


class Fold(AtLine, frozen=True, kw_only=True, tag="fold"):
    """Iterations of a loop, or the body of a call, that ran and were not recorded."""

    what: str
    steps: int
    iterations: int = 0
    calls: int = 0


class Test(_Record, frozen=True, kw_only=True, tag="test"):
    """An operand of a condition was tested, and was true or false."""

    f: int
    at: tuple[int, int, int, int]
    v: bool


class Iteration(AtLine, frozen=True, kw_only=True, tag="iteration"):
    """The body of the loop at line `n` begins, with these values of the names that the item went to."""

    number: int
    items: list[V] | None = None


class Ended(AtLine, frozen=True, kw_only=True, tag="ended"):
    """The loop at line `n` found no further item, or its condition false."""

    iterations: int


class Lost(_Record, frozen=True, kw_only=True, tag="lost"):
    """Something could not be recorded."""

    why: str


class End(_Record, frozen=True, kw_only=True, tag="end"):
    """The program came to an end."""


Record: TypeAlias = (
    Call
    | Line
    | Set
    | Del
    | Object
    | Mutate
    | Return
    | Yield
    | Resume
    | Raise
    | Unwind
    | Out
    | Fold
    | Test
    | Iteration
    | Ended
    | Lost
    | End
)


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """Call of a function that the run began with; the arguments as JSON."""

    call: str
    args: list[Any] = []
    kwargs: dict[str, Any] = {}


class Header(msgspec.Struct, frozen=True, kw_only=True, tag_field="k", tag="header"):
    """The first line: what ran, under which limits, and whether everything is here."""

    schema: str
    source: str
    source_sha256: str
    filename: str
    mode: str
    entry: Entry | None
    python: str
    hash_seed: int | None
    limits: dict[str, int]
    outcome: str
    complete: bool
    reasons: list[str]
    folded: bool
    counts: dict[str, int]
    sha256: str
