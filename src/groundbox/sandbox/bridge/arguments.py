"""The arguments of a call: from tagged values and files in the workdir to what the function gets."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from groundbox import guestjson
from groundbox.errors import GuestFileError, InvalidArgument, WireError
from groundbox.limits import MiB
from groundbox.sandbox.bridge import frames, values
from groundbox.sandbox.bridge.log import Written, digest
from groundbox.sandbox.bridge.tool import Tool
from groundbox.sandbox.bridge.tools import ToolQuotas
from groundbox.sandbox.bridge.values import Unfit
from groundbox.sandbox.decoding import decoded

_LARGE_BYTES: Final = 32 * 1024
_MOST_BYTES: Final = 8 * MiB
"""Of arguments as JSON; decoding and checking them holds the interpreter's lock. Bytes of files may be more."""

Read = Callable[[frames.Kept], bytes]


class Given(NamedTuple):
    """Arguments as they travelled, as the function gets them, and the digest of the call.

    Attributes:
        file_bytes: About the memory that those from a file take.
    """

    tagged: Written
    values: dict[str, Any]
    sha256: str
    file_bytes: int = 0


class Arguments:
    """Of the calls of one run.

    Attributes:
        sent_bytes: Of frames, which the session adds, and of files that were read.
        spent_s: Time of the event loop that was taken for arguments since this was last set back.
    """

    def __init__(self, read: Callable[[str, int], bytes], quotas: ToolQuotas) -> None:
        """Args:
        read: Gives the bytes of a file in the workdir, up to a number of them.
        """
        self.sent_bytes = 0
        self.spent_s = 0.0
        self._read_file = read
        self._most_bytes = quotas.sent_bytes

    async def of(self, tool: Tool, call: frames.Call, size: int) -> Given:
        """What a call gives. What takes long is found out beside the event loop.

        Raises:
            Unfit: It does not fit, or a file is not what the call says.
        """
        if (call.args is None) == (call.file is None):
            raise Unfit("a call has either args or a file with them")
        if size <= _LARGE_BYTES:
            begun = time.monotonic()
            try:
                return _given(tool, call, _elsewhere)
            except _Elsewhere:
                pass
            finally:
                self.spent_s += time.monotonic() - begun
        return await decoded(_given, tool, call, self._kept)

    def _kept(self, file: frames.Kept) -> bytes:
        """The bytes of a file in the workdir, which may change while we look; they have to be those that were meant.

        Each one that is read counts as sent, however often the same is named.
        """
        self.sent_bytes += file.size_bytes
        if self.sent_bytes > self._most_bytes:
            raise Unfit(f"the arguments of the run's calls are over {self._most_bytes} bytes together")
        try:
            data = self._read_file(file.path, file.size_bytes)
        except (GuestFileError, InvalidArgument) as problem:
            raise Unfit(str(problem)[:300]) from None
        if len(data) != file.size_bytes or hashlib.sha256(data).hexdigest() != file.sha256:
            raise Unfit(f"the file {file.path[:200]!r} is not what the call says it is")
        return data


class _Elsewhere(Exception):
    """A file has to be read, which is not done on the event loop."""


def _elsewhere(file: frames.Kept) -> bytes:
    raise _Elsewhere


def _given(tool: Tool, call: frames.Call, read: Read) -> Given:
    tagged = call.args or {}
    held_bytes = 0
    if call.file is not None:
        if call.file.size_bytes > _MOST_BYTES:
            raise Unfit(f"it has {call.file.size_bytes} bytes of arguments, over {_MOST_BYTES}; give tools.File(path)")
        try:
            body = read(call.file)
            tagged, held_bytes = frames.decode_args(body), guestjson.weigh(body)
        except WireError as problem:
            raise Unfit(str(problem)) from None
    decoded = {name: values.decode(item, read) for name, item in tagged.items()}
    written = Written.of(tagged) if call.file is None else Written.slowly(tagged)
    return Given(written, tool.arguments(decoded), digest(tool.name, written), held_bytes)
