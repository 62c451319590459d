"""The host's end of a worker's socket: every byte that arrives is a hostile guest's claim.

Frames are length-prefixed JSON (see guest/wire.py), decoded against a strict schema, with caps on the size of a frame,
on the number of values and on the depth of what is in it (guestjson.py). Nothing is ever unpickled.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator
from typing import Annotated, Any, Final, NamedTuple

import msgspec

from groundbox import guestjson
from groundbox.errors import WireError
from groundbox.guestjson import MOST_VALUES
from groundbox.sandbox import bundles
from groundbox.sandbox.bundles import Bundle

MOST_FRAME_BYTES: Final = 16 * 1024 * 1024
_SMALL_BYTES: Final = 256 * 1024
_FEW_VALUES: Final = 2000
_MOST_NAME: Final = 200
_MOST_MESSAGE: Final = 64 * 1024
_MOST_TRACEBACK: Final = 256 * 1024
_MOST_LOCALS: Final = 200
_MOST_LOCAL: Final = 4096
_MOST_HINTS: Final = 50
_MOST_REASON: Final = 4096
_LENGTH: Final = struct.Struct("<I")


class Ready(msgspec.Struct, tag_field="ev", tag="ready", frozen=True):
    """The jail stands. The workdir's descriptor comes with it, and the proxy's socket when there is one."""


class Failed(msgspec.Struct, tag_field="ev", tag="failed", frozen=True):
    """The jail could not be set up; sent before any untrusted code."""

    reason: str


class _Shown(msgspec.Struct, tag_field="ev", tag="display", frozen=True):
    data: dict[str, msgspec.Raw]
    display_id: Annotated[str, msgspec.Meta(max_length=200)] | None = None
    update: bool = False


class Shown(NamedTuple):
    """The program showed a rich value.

    Attributes:
        display_id: Its name for it, by which it may be replaced.
        updates: It replaces what was shown under that name.
    """

    bundle: Bundle
    display_id: str | None = None
    updates: bool = False


class Cleared(msgspec.Struct, tag_field="ev", tag="clear", frozen=True):
    """The program asked to clear what it showed (`clear_output`)."""

    wait: bool = False


class _Answered(msgspec.Struct, tag_field="ev", tag="answer", frozen=True):
    number: Annotated[int, msgspec.Meta(ge=0)]
    value: msgspec.Raw = msgspec.Raw(b"null")
    raised: Annotated[str, msgspec.Meta(max_length=1000)] = ""
    message: Annotated[str, msgspec.Meta(max_length=1000)] = ""
    lost: Annotated[str, msgspec.Meta(max_length=20)] = ""


class Answered(NamedTuple):
    """Answer to one of many calls, with the memory that its value takes."""

    number: int
    value: Any
    raised: str
    message: str
    lost: str
    size_bytes: int


class GuestFailure(msgspec.Struct, frozen=True):
    """What the guest says about an exception."""

    type: str
    message: str
    line: int | None = None
    column: int | None = None
    traceback: str = ""
    locals: dict[str, str] = {}
    hints: list[str] = []


class Observed(msgspec.Struct, frozen=True):
    """What the guest says that an observer saw (`checks=True`); `observations` has what is made of it."""

    kind: Annotated[str, msgspec.Meta(max_length=64)]
    line: Annotated[int, msgspec.Meta(ge=1, le=1 << 31)] | None = None
    counts: Annotated[
        dict[Annotated[str, msgspec.Meta(max_length=64)], Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]],
        msgspec.Meta(max_length=8),
    ] = {}
    names: Annotated[list[Annotated[str, msgspec.Meta(max_length=64)]], msgspec.Meta(max_length=8)] = []


class FailedCommand(msgspec.Struct, frozen=True):
    """What the guest says about a `!command` of a cell whose status was not 0."""

    command: Annotated[str, msgspec.Meta(max_length=200)]
    status: Annotated[int, msgspec.Meta(ge=-64, le=255)]
    hint: Annotated[str, msgspec.Meta(max_length=600)] = ""


class _Done(msgspec.Struct, tag_field="ev", tag="done", frozen=True):
    id: int
    ok: bool
    value: dict[str, msgspec.Raw] | None = None
    error: GuestFailure | None = None
    exit_code: Annotated[int, msgspec.Meta(ge=0, le=255)] | None = None
    exit_signal: Annotated[int, msgspec.Meta(ge=1, le=64)] | None = None
    interrupted: bool = False
    state_lost: bool = False
    reason: str = ""
    core: Annotated[str, msgspec.Meta(max_length=20)] = ""
    observed: Annotated[list[Observed], msgspec.Meta(max_length=48)] = []
    outside: Annotated[list[Annotated[str, msgspec.Meta(max_length=4096)]], msgspec.Meta(max_length=10)] = []
    failed_commands: Annotated[list[FailedCommand], msgspec.Meta(max_length=8)] = []


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """The order with this id is finished."""

    id: int
    ok: bool
    value: Bundle | None = None
    error: GuestFailure | None = None
    exit_code: int | None = None
    exit_signal: int | None = None
    interrupted: bool = False
    state_lost: bool = False
    reason: str = ""
    core: str = ""
    observed: list[Observed] = []
    outside: list[str] = []
    failed_commands: list[FailedCommand] = []


Frame = Ready | Failed | Shown | Cleared | Answered | Done
_DECODER: Final = msgspec.json.Decoder(Ready | Failed | _Shown | Cleared | _Answered | _Done)
_DATA: Final = "application/json"
_ENCODER: Final = msgspec.json.Encoder()


def encode(order: dict[str, Any]) -> bytes:
    """One frame, whole."""
    body = _ENCODER.encode(order)
    return _LENGTH.pack(len(body)) + body


class FrameReader:
    """Cuts a stream of bytes into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The bodies of the frames that are complete now, for `decode`.

        Raises:
            WireError: What came is no frame. The worker must be destroyed.
        """
        self._buffer += data
        while len(self._buffer) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer)
            if length > MOST_FRAME_BYTES:
                raise WireError(f"a guest's frame of {length} bytes is over {MOST_FRAME_BYTES}")
            end = _LENGTH.size + length
            if len(self._buffer) < end:
                return
            with memoryview(self._buffer) as held:
                body = bytes(held[_LENGTH.size : end])
            del self._buffer[:end]
            yield body


def decode(body: bytes) -> Frame:
    """One frame's body. For one that is not `is_small`, others should have their turn meanwhile: use a thread.

    Raises:
        WireError: It is not valid JSON of the schema, has too many values, or is nested too deeply.
    """
    if len(body) > MOST_VALUES and guestjson.has_more_values(body, MOST_VALUES):
        raise WireError(f"a guest's frame holds more than {MOST_VALUES} values")
    try:
        frame = _DECODER.decode(body)
    except guestjson.FAULTS as error:
        raise WireError(f"a guest's frame does not fit the schema: {str(error)[:200]}") from None
    if isinstance(frame, _Shown):
        return Shown(bundles.unpacked(frame.data), frame.display_id, frame.update)
    if isinstance(frame, _Answered):
        return _answered(frame)
    if isinstance(frame, _Done):
        return _done(frame)
    known: Ready | Failed | Cleared = frame
    return known


def is_small(body: bytes) -> bool:
    """Whether a frame is decoded within a few milliseconds, whatever is in it."""
    return len(body) <= _FEW_VALUES or (len(body) <= _SMALL_BYTES and guestjson.count_marks(body) <= _FEW_VALUES)


def _answered(told: _Answered) -> Answered:
    bundle = bundles.unpacked({_DATA: told.value})
    return Answered(
        number=told.number,
        value=bundle.data.get(_DATA),
        raised=told.raised,
        message=told.message,
        lost=told.lost or ("too-large" if bundle.left_out else ""),
        size_bytes=bundle.size_bytes,
    )


def _done(told: _Done) -> Done:
    return Done(
        id=told.id,
        ok=told.ok,
        value=None if told.value is None else bundles.unpacked(told.value),
        error=None if told.error is None else _shortened(told.error),
        exit_code=told.exit_code,
        exit_signal=told.exit_signal,
        interrupted=told.interrupted,
        state_lost=told.state_lost,
        reason=_cut(told.reason, _MOST_REASON),
        core=told.core,
        observed=told.observed,
        outside=told.outside,
        failed_commands=told.failed_commands,
    )


def _shortened(told: GuestFailure) -> GuestFailure:
    """No longer than the guest's own code would make it."""
    names = itertools.islice(told.locals.items(), _MOST_LOCALS)
    return GuestFailure(
        type=_cut(told.type, _MOST_NAME),
        message=_cut(told.message, _MOST_MESSAGE),
        line=told.line,
        column=told.column,
        traceback=_cut(told.traceback, _MOST_TRACEBACK),
        locals={_cut(name, _MOST_NAME): _cut(shown, _MOST_LOCAL) for name, shown in names},
        hints=[_cut(hint, _MOST_LOCAL) for hint in told.hints[:_MOST_HINTS]],
    )


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most} characters left out)"
