"""What a caller asks to be run, checked before anything is started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from groundbox.errors import InvalidArgument
from groundbox.sandbox import languages
from groundbox.trace.options import TraceOptions

MOST_SOURCE_BYTES: Final = 8 * 1024 * 1024


def checked(
    source: str,
    language: str,
    *,
    mode: str | None = None,
    argv: Sequence[str] = (),
    stdin: bytes | str | None = None,
    filename: str | None = None,
    call: str | None = None,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    **options: Any,
) -> languages.Program:
    """The program, if it can be meant.

    Raises:
        InvalidArgument: It cannot; the message says which argument, and what to do.
    """
    runtime = languages.find(language)
    if not isinstance(source, str):
        raise InvalidArgument("source", f"must be text, not {type(source).__name__}")
    if not source.strip():
        raise InvalidArgument("source", "is empty; give a program to run")
    try:
        size = len(source) if source.isascii() else len(source.encode("utf-8"))
    except UnicodeEncodeError:
        raise InvalidArgument("source", "cannot be encoded as UTF-8; decode the file as it was written") from None
    if size > MOST_SOURCE_BYTES:
        raise InvalidArgument("source", f"has {size} bytes, more than {MOST_SOURCE_BYTES}; put data into files instead")
    arguments: Sequence[object] = argv
    if isinstance(argv, str) or not all(isinstance(a, str) and "\0" not in a for a in arguments):
        raise InvalidArgument("argv", "must be a list of texts without NUL")
    for name, given in (("call", call), ("args", args), ("kwargs", kwargs)):
        if given and "call" not in runtime.MODES:
            instead = "; a script's arguments are `argv`" if name == "args" and "script" in runtime.MODES else ""
            raise InvalidArgument(name, f"belongs to a call of a Python function{instead}")
    data = stdin.encode("utf-8", "surrogateescape") if isinstance(stdin, str) else stdin
    return languages.Program(
        source=source,
        mode=mode or runtime.MODES[0],
        argv=tuple(argv),
        stdin=data,
        filename=filename or f"main{runtime.EXTENSION}",
        call=call,
        args=args,
        kwargs=kwargs or {},
        options=options,
    )


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
