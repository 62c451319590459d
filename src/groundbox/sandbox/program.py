"""What a caller asks to be run, checked before anything is started."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from groundbox.errors import InvalidArgument
from groundbox.sandbox import languages
from groundbox.sandbox.languages import MOST_SOURCE_BYTES
from groundbox.sandbox.options import LANGUAGE
from groundbox.trace_options import TraceOptions


def checked(
    source: Any,
    language: str,
    *,
    mode: str | None = None,
    argv: Any = (),
    stdin: Any = None,
    filename: Any = None,
    call: str | None = None,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    **options: Any,
) -> languages.Program:
    """The program, if it can be meant: whatever a caller gave, of the kinds that `RunOptions` lists.

    Raises:
        InvalidArgument: It cannot; the message says which argument, and what to do.
    """
    runtime = languages.find(language)
    if not isinstance(source, str):
        instead = "; give what the file holds, by its read_text()" if isinstance(source, os.PathLike) else ""
        raise InvalidArgument("source", f"must be text, not {type(source).__name__}{instead}")
    if not source.strip():
        raise InvalidArgument("source", "is empty; give a program to run")
    try:
        size = len(source) if source.isascii() else len(source.encode("utf-8"))
    except UnicodeEncodeError:
        raise InvalidArgument("source", "cannot be encoded as UTF-8; decode the file as it was written") from None
    if size > MOST_SOURCE_BYTES:
        raise InvalidArgument("source", f"has {size} bytes, more than {MOST_SOURCE_BYTES}; put data into files instead")
    listed = tuple(argv) if isinstance(argv, Iterable) else (None,)
    arguments = tuple(each for each in listed if isinstance(each, str) and "\0" not in each)
    if isinstance(argv, str | bytes) or arguments != listed:
        raise InvalidArgument("argv", "must be a list of texts without NUL")
    if filename is not None and not (isinstance(filename, str) and "\0" not in filename):
        raise InvalidArgument("filename", "must be a text without NUL")
    for name, given in (("call", call), ("args", args), ("kwargs", kwargs)):
        if given and "call" not in runtime.MODES:
            instead = "; a script's arguments are `argv`" if name == "args" and "script" in runtime.MODES else ""
            raise InvalidArgument(name, f"belongs to a call of a Python function{instead}")
    return languages.Program(
        source=source,
        mode=mode or runtime.MODES[0],
        argv=arguments,
        stdin=_bytes("stdin", stdin),
        filename=filename or f"main{runtime.EXTENSION}",
        call=call,
        args=args,
        kwargs=kwargs or {},
        options={name: given for name, given in options.items() if given is not None or name not in LANGUAGE},
    )


def _bytes(name: str, data: object) -> bytes | None:
    """`data` as it travels; half of a surrogate pair is the byte that `os.fsdecode` made it of.

    Raises:
        InvalidArgument: It is neither bytes nor text.
    """
    if data is None or isinstance(data, bytes):
        return data
    if isinstance(data, bytearray | memoryview):
        return bytes(data)
    if not isinstance(data, str):
        raise InvalidArgument(name, f"must be text or bytes, not of type {type(data).__name__}")
    try:
        return data.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise InvalidArgument(name, "holds half of a surrogate pair, which is no text; give bytes instead") from None


def trace_options(wanted: bool | TraceOptions, language: str) -> TraceOptions | None:
    """What to record, None for nothing.

    Raises:
        InvalidArgument: The language has no tracer, or it is no such value.
    """
    if wanted is False:
        return None
    if language != "python":
        raise InvalidArgument("trace", f"is for Python programs; {language!r} has no tracer")
    if wanted is not True and not isinstance(wanted, TraceOptions):
        raise InvalidArgument("trace", f"must be True, False or TraceOptions, not {wanted!r}")
    return TraceOptions() if wanted is True else wanted
