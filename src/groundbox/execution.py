"""The result of one run: what happened, as values.

The keys of `Execution.to_dict` are the wire format of `--json`, HTTP and MCP;
keys may be added, none is renamed.
"""

from __future__ import annotations

import base64
import dataclasses
import enum
import functools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

from groundbox.result_parts import BINARY_MEDIA as BINARY_MEDIA
from groundbox.result_parts import Failure as Failure
from groundbox.result_parts import Match as Match
from groundbox.unseen import shown_names

CHART: Final = "application/vnd.groundbox.chart+json"
"""The numbers of a figure of matplotlib, beside its picture (docs/artifacts.md)."""

_MOST_SHOWN: Final = 60
_MOST_NAMED: Final = 3


class _Shown:
    """Values that notebooks show: Jupyter by their bundle, marimo by `_mime_`."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """Markup in which nothing of the guest acts (groundbox/markup.py)."""
        raise NotImplementedError

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    def _mime_(self) -> tuple[str, str]:
        return "text/html", self._repr_html_()


class Outcome(enum.StrEnum):
    """How a run ended."""

    OK = "ok"
    ERROR = "error"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    SIGNAL = "signal"
    CANCELLED = "cancelled"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Display(_Shown):
    """One rich value that the program showed: a MIME bundle.

    Attributes:
        data: MIME type to content; text for text types, base64 for `BINARY_MEDIA`,
            decoded JSON for `application/*+json`.
        preview: The picture made smaller, as PNG bytes, where it is larger than models look at (docs/artifacts.md).
    """

    data: Mapping[str, Any]
    preview: bytes | None = dataclasses.field(default=None, repr=False, compare=False)

    def _bytes(self, mime: str) -> bytes | None:
        content = self.data.get(mime)
        return base64.b64decode(content) if isinstance(content, str) else None

    @property
    def png(self) -> bytes | None:
        """The picture as PNG bytes, or None."""
        return self._bytes("image/png")

    @property
    def jpeg(self) -> bytes | None:
        """The picture as JPEG bytes, or None."""
        return self._bytes("image/jpeg")

    @property
    def chart(self) -> dict[str, Any] | None:
        """The numbers of a figure of matplotlib, or None. They are the guest's word, of any shape."""
        content = self.data.get(CHART)
        return content if isinstance(content, dict) else None

    @property
    def text(self) -> str | None:
        """The plain text form, or None."""
        content = self.data.get("text/plain")
        return content if isinstance(content, str) else None

    @property
    def html(self) -> str | None:
        """The HTML form, or None. It is the guest's: never show it outside a sandboxed frame."""
        content = self.data.get("text/html")
        return content if isinstance(content, str) else None

    def __repr__(self) -> str:
        text = [] if self.text is None else [_short(self.text)]
        return f"<Display {', '.join([*text, *(_name(mime) for mime in self.data if mime != 'text/plain')])}>"

    def _repr_html_(self) -> str:
        """How notebooks show it: nothing of the guest's own markup acts there."""
        from groundbox import markup

        return markup.of_display(self)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """With the picture by itself, for what shows no HTML."""
        from groundbox.markup import picture_of

        picture = picture_of(self.data)
        shown = _Shown._repr_mimebundle_(self)
        return shown if picture is None else {**shown, picture[0]: picture[1]}


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Artifact(_Shown):
    """A regular file that the run made or changed in the workdir.

    Attributes:
        path: Relative to the workdir, with `/` between the parts.
        size_bytes: Of the file right after the run.
        media_type: By the content where that says it, by the name otherwise.
        sha256: Of the bytes as they were right after the run.
        facts: What it is, such as `pages` of a PDF, `sheets` of a workbook, `rows` and `columns` of a table, `width`
            and `height` of a picture in pixels (docs/artifacts.md). Empty where nothing was found out.
        preview: A picture of the first page, or of a picture larger than models look at, as PNG bytes.
    """

    path: str
    size_bytes: int
    media_type: str
    sha256: str
    facts: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    preview: bytes | None = dataclasses.field(default=None, repr=False, compare=False)
    _read: Callable[[], bytes] | None = dataclasses.field(default=None, repr=False, compare=False)

    @property
    def about(self) -> str:
        """The facts in a few words, such as `3 pages` or `100 rows × 4 columns`, or "" without any."""
        from groundbox.facts import words

        return words(self.facts)

    def read(self) -> bytes:
        """The file's bytes as they were right after the run.

        Raises:
            GuestFileError: The bytes were not kept, because the run made more than is kept
                in memory and the sandbox's workdir is gone or the file has changed since.
        """
        if self._read is None:
            from groundbox.errors import GuestFileError

            raise GuestFileError(self.path, "its bytes were not kept with this result")
        return self._read()

    def __repr__(self) -> str:
        about = [_name(self.about)] if self.about else []
        return f"<Artifact {', '.join([repr(self.path), f'{self.size_bytes} bytes', self.media_type, *about])}>"

    def _repr_html_(self) -> str:
        """How notebooks show it: nothing of the guest's own markup acts there."""
        from groundbox import markup

        return markup.of_artifacts([self])

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy has the bytes with it, or the reason why they could not be read when it was made."""
        from groundbox.errors import GuestFileError

        told = {each.name: getattr(self, each.name) for each in dataclasses.fields(self) if each.name != "_read"}
        try:
            read = functools.partial(_held, self.read())
        except GuestFileError as error:
            read = functools.partial(_missing, self.path, error.reason)
        return _copied, (told, read)


def _held(data: bytes) -> bytes:
    """What a copied artifact brought with it."""
    return data


def _missing(path: str, reason: str) -> bytes:
    """Why a copied artifact has no bytes."""
    from groundbox.errors import GuestFileError

    raise GuestFileError(path, reason)


def _copied(told: Mapping[str, Any], read: Callable[[], bytes]) -> Artifact:
    return Artifact(**told, _read=read)


class Artifacts(_Shown, Mapping[str, Artifact]):
    """Artifacts by path, in the order of their paths."""

    def __init__(self, artifacts: Sequence[Artifact] = ()) -> None:
        self._by_path = {a.path: a for a in sorted(artifacts, key=lambda a: a.path)}

    def __getitem__(self, path: str) -> Artifact:
        return self._by_path[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_path)

    def __len__(self) -> int:
        return len(self._by_path)

    def __repr__(self) -> str:
        return f"Artifacts({list(self._by_path)})"

    def _repr_html_(self) -> str:
        """How notebooks show it: nothing of the guest's own markup acts there."""
        from groundbox import markup

        return markup.of_artifacts(list(self.values()))


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Warning:
    """Evidence that a run that succeeded may still be wrong.

    Attributes:
        code: The rule's name, such as `sql.fan_out` (docs/checks.md).
        tier: `error`, `warn` or `note`, by the precision measured for the rule.
        message: What was seen, in a sentence.
        evidence: The facts that it was seen by, as plain data.
        hint: What to look at or to change; "" without one.
    """

    code: str
    tier: str
    message: str
    evidence: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    hint: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """What a run cost, read from the kernel and the host's clock, never from the guest.

    Attributes:
        wall_s: From handing the program to the worker until its result was complete.
        cpu_s: Processor time of all processes of the sandbox during the run,
            None where the kernel counts it for no group of processes (no cgroup).
        peak_memory_bytes: Highest memory of the process tree since the sandbox began.
        start_s: From asking for a sandbox until a worker was ready for this run.
        warm: Whether the worker was waiting in the pool.
    """

    wall_s: float
    cpu_s: float | None
    peak_memory_bytes: int | None
    start_s: float
    warm: bool


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Isolation:
    """Which layers of the wall stood during the run.

    Attributes:
        backend: `namespaces`, `landlock` or `bare`.
        layers: Layers that stood, by the names that `groundbox doctor` prints.
        missing: Layers that did not stand: what the caller waived by name, and `cgroup` where the host has none
            and the backend is one that runs without.
    """

    backend: str
    layers: Sequence[str]
    missing: Sequence[str] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ToolCall:
    """One call of a tool of the host, as results tell it (docs/tools.md).

    Attributes:
        tool: Its name.
        arguments: The first characters of its redacted arguments, as JSON.
        outcome: `ok`, or why there is no result: `error`, `invalid`, `denied`, `unknown`, `quota`, `timeout`, …
        result: The first characters of its redacted result or of what the guest was told went wrong.
        wall_s: From its arrival until it was answered.
        sent_bytes: Size of its arguments as they came.
        received_bytes: Size of what the guest was answered.
        replayed: Whether the answer came from a log and nothing was called.
    """

    tool: str
    arguments: str
    outcome: str
    result: str
    wall_s: float
    sent_bytes: int
    received_bytes: int
    replayed: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ToolCalls:
    """The tool calls of one run: exact totals, and previews of the first and last.

    Attributes:
        total: All calls that arrived; of those that are in no entry of `calls`, `dropped` tells the number.
        outcomes: Outcome to how many calls had it.
        calls: The first and the last of them.
        dropped: How many are in no entry of `calls`.
        sent_bytes: Size of the arguments of all calls.
        received_bytes: Size of all answers.
        waited_s: How long the host worked for them, in which time the run's wall clock may have stood still.
        sandbox: Which rows of a log are of the sandbox that ran this.
    """

    total: int
    outcomes: Mapping[str, int]
    calls: Sequence[ToolCall]
    dropped: int
    sent_bytes: int
    received_bytes: int
    waited_s: float
    sandbox: str


class OutputHandle(Protocol):
    """All that one stream wrote, also what was left out of the text."""

    def read(self, offset: int = 0, size: int = 1 << 20) -> bytes:
        """`size` bytes from `offset`."""

    def search(self, pattern: str, most: int = 100) -> Sequence[Match]:
        """The first `most` lines that match a regular expression, with their numbers from 1."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Execution(_Shown):
    """The result of one run.

    It is true where the outcome is `ok`. It can be pickled and copied, and takes its files and its output along;
    `to_dict` and `to_json` are what is sent elsewhere, and pydantic and FastAPI send the same (docs/results.md).

    Attributes:
        execution_id: 32 hexadecimal digits, unlike those of any other run; logs and traces name the run by it.
        language: Of the program, such as `python`.
        outcome: How it ended. What the kernel and the host's clock say of that comes before what the guest says.
        exit_code: Set when the program ended by itself; for a cell 0 or 1.
        exit_signal: Set when a signal ended it. Never set together with `exit_code`.
        stdout: Decoded as UTF-8 with U+FFFD for what is not; head and tail when cut.
        stderr: The same of the other stream.
        dropped_bytes: Bytes cut out of the middle of `stdout` and `stderr`, and counts of
            `displays` and `artifacts` that were over the caps, or are files with a second name (hard links).
            0 means nothing is missing.
        value: MIME bundle of the cell's last expression, or None. Not always a dict: each form of a result of SQL
            is made when it is looked at.
        error: What it failed with; None exactly when the outcome is `ok`.
        displays: What it showed, in order.
        artifacts: Files that it made or changed in the workdir, by path.
        warnings: Evidence that a run that succeeded may still be wrong, and facts that its caller should know.
        usage: Time and memory.
        isolation: The wall that stood.
        outputs: `stdout` and `stderr` whole, to page through or search, as long as this result lives.
        state: `kept` when the sandbox's process lives on with its variables; `lost` when it is gone, and what earlier
            runs left in it; `ended` when it is gone and there was no earlier run, as after `groundbox.run`.
        trust: Who told how it ended: `kernel` for the kernel or the host itself, `guest` for a process that guest code
            has run in, now or earlier in the sandbox: cells, and all that follows them (docs/threat-model.md).
        trace: What the program did step by step (`groundbox.trace.record.reading.Trace`), when that was asked for.
        tool_calls: What it called on the host, when tools were granted.
    """

    execution_id: str
    language: str
    outcome: Outcome
    exit_code: int | None
    exit_signal: int | None
    stdout: str
    stderr: str
    dropped_bytes: Mapping[str, int]
    value: Mapping[str, Any] | None
    error: Failure | None
    displays: Sequence[Display]
    artifacts: Artifacts
    warnings: Sequence[Warning]
    usage: Usage
    isolation: Isolation
    state: str = "kept"
    trust: str = "guest"
    trace: Any = None
    tool_calls: ToolCalls | None = None
    outputs: Mapping[str, OutputHandle] = dataclasses.field(default_factory=dict, repr=False, compare=False)

    @property
    def ok(self) -> bool:
        """Whether the program did what it was asked without failing."""
        return self.outcome is Outcome.OK

    @property
    def text(self) -> str | None:
        """The last expression's value as plain text, or None."""
        return None if self.value is None else self.value.get("text/plain")

    def __bool__(self) -> bool:
        """`ok`: a result that failed is false, though it is there. Compare with None where that is the question."""
        return self.ok

    def raise_for_error(self) -> Execution:
        """Raise if the program failed, for code that has no use for a failure as a value; else return this.

        Raises:
            ProgramFailed: The outcome is not `ok`. It has this result as `execution`.
        """
        if not self.ok:
            from groundbox.errors import ProgramFailed

            raise ProgramFailed(self)
        return self

    def for_model(self, *, max_tokens: int = 2000) -> str:
        """Return the text that the agent of groundbox shows a model of this run (docs/agent.md).

        It has how the run ended, the value, the output, tables, files, warnings, and the failure with its hints. What
        the program wrote is between marks that it cannot forge. Pictures are named, and sent otherwise.

        Args:
            max_tokens: About how long it may be; what is left out is counted.

        Raises:
            InvalidArgument: `max_tokens` is below 400.
        """
        from groundbox.agent.observation import Shape, observe

        return observe(self, run=None, shape=Shape(max_tokens=max_tokens, max_pictures=0)).text

    def __repr__(self) -> str:
        parts = [] if self.error is None else [_short(f"{self.error.type}: {self.error.message}")]
        if self.text is not None:
            parts.append(f"value {_short(self.text)}")
        parts += [f"{name} {_short(text)}" for name, text in (("stdout", self.stdout), ("stderr", self.stderr)) if text]
        parts += [_count(len(items), one) for items, one in ((self.displays, "display"), (self.warnings, "warning"))]
        parts += [_files(self.artifacts), f"{self.usage.wall_s:.3g} s"]
        return f"<Execution {self.outcome.value}: {', '.join(filter(None, parts))}>"

    def _repr_html_(self) -> str:
        """How notebooks show it: nothing of the guest's own markup acts there."""
        from groundbox import markup

        return markup.of_execution(self)

    def to_json(self, *, indent: int | None = None) -> str:
        """`to_dict` as text, in ASCII."""
        return json.dumps(self.to_dict(), indent=indent)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """How models of pydantic and responses of FastAPI take one: as it is, sent as `to_dict`."""
        from pydantic_core import core_schema

        sent = core_schema.plain_serializer_function_ser_schema(cls.to_dict, return_schema=core_schema.dict_schema())
        return core_schema.is_instance_schema(cls, serialization=sent)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> dict[str, Any]:
        """What an OpenAPI document says of it."""
        names = [each.name for each in dataclasses.fields(cls) if each.name != "outputs"]
        outcome = {"type": "string", "enum": [each.value for each in Outcome]}
        return {
            "title": cls.__name__,
            "type": "object",
            "properties": {name: outcome if name == "outcome" else {} for name in names},
            "required": names,
        }

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, keys in the documented order. Artifacts and previews go by metadata, not by bytes."""
        result = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name != "outputs"}
        result["outcome"] = self.outcome.value
        result["dropped_bytes"] = dict(self.dropped_bytes)
        result["value"] = None if self.value is None else dict(self.value)
        result["error"] = None if self.error is None else _plain(self.error)
        result["displays"] = [dict(d.data) for d in self.displays]
        shown = {path: {"shown": form} for path, form in shown_names(self.artifacts).items()}
        result["artifacts"] = [
            {**_plain(a), **shown.get(path, {}), "preview": _told(a.preview)} for path, a in self.artifacts.items()
        ]
        result["warnings"] = [_plain(w) for w in self.warnings]
        result["usage"] = _plain(self.usage)
        result["isolation"] = _plain(self.isolation)
        result["trace"] = None if self.trace is None else self.trace.summary()
        calls = self.tool_calls
        result["tool_calls"] = None if calls is None else {**_plain(calls), "calls": [_plain(c) for c in calls.calls]}
        return result


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """Something that happened during a run, told as it happened.

    Attributes:
        kind: `stdout`, `stderr`, `display`, `clear` or `end`; the other fields are set accordingly. At `clear` the
            program asked that what it showed so far be taken away (`clear_output`).
        text: Of `stdout` and `stderr`: what came, which need not end with a line.
        display: Of `display`: what was shown.
        display_id: Of `display`: the program's own name for it, by which it may replace it later.
        updates: Of `display`: it replaces what was shown under that name.
        waits: Of `clear`: only when something else is there to be shown.
        execution: Of `end`: the result.
    """

    kind: str
    text: str = ""
    display: Display | None = None
    execution: Execution | None = None
    display_id: str | None = None
    updates: bool = False
    waits: bool = False


def _short(text: str) -> str:
    """The beginning of a text as a literal, in which nothing acts on a terminal, and how much is left out."""
    left_out = len(text) - _MOST_SHOWN
    return repr(text) if left_out <= 0 else f"{text[:_MOST_SHOWN]!r}… ({left_out} characters more)"


def _name(text: str) -> str:
    """A name as it is if it is plain, else as a literal."""
    return text if text.isprintable() and len(text) <= _MOST_SHOWN else _short(text)


def _count(count: int, one: str) -> str:
    return "" if not count else f"1 {one}" if count == 1 else f"{count} {one}s"


def _files(artifacts: Artifacts) -> str:
    if not artifacts:
        return ""
    named = [_name(path) for path in list(artifacts)[:_MOST_NAMED]]
    more = [f"{len(artifacts) - len(named)} more"] if len(artifacts) > len(named) else []
    return f"files {' '.join([*named, *more])}"


def _told(preview: bytes | None) -> dict[str, Any] | None:
    """What a preview is, which is a PNG; its size stands in its first chunk."""
    if preview is None:
        return None
    width, height = (int.from_bytes(preview[at : at + 4], "big") for at in (16, 20))
    return {"media_type": "image/png", "size_bytes": len(preview), "width": width, "height": height}


def _plain(value: Any) -> dict[str, Any]:
    fields = (f.name for f in dataclasses.fields(value) if not f.name.startswith("_") and f.name != "preview")
    plain = {name: getattr(value, name) for name in fields}
    for name, item in plain.items():
        if isinstance(item, Mapping):
            plain[name] = dict(item)
        elif isinstance(item, tuple):
            plain[name] = list(item)
    return plain
