"""A conversation as JSON Lines: kept with every receipt, and run again.

The first line is the header, with the question, the model, and the files that were there (small ones with their text,
so that a recording stands alone). Each further line is one event. A line with `receipt` has all that a run left but the
bytes of its pictures, which are told by digest and size.

Only the header and the `replied` lines are needed to run a conversation again; the `observed` lines are what a second
run is compared with.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from groundbox.agent.events import Ended, Event, Noticed, Observed, Replied, Started
from groundbox.agent.messages import Call, Cost, Reply
from groundbox.agent.reply import MOST_BRANCHES
from groundbox.errors import InvalidArgument
from groundbox.execution import BINARY_MEDIA, Execution
from groundbox.sandbox.options import Rollback

SCHEMA: Final = "groundbox.conversation/1"
MOST_BYTES: Final = 64 * 1024 * 1024
_INLINE_BYTES: Final = 64 * 1024
_TOOK: Final = re.compile(r", after \d+ s\b")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recording:
    """A conversation that can be run again.

    Attributes:
        files: Path to text, for those that are in the recording.
        missing: Paths of those that have to be given again.
        observations: Run to what the model was shown of it then.
        branches, rollback: As `GroundedAgent` takes them; runs show the same only with what they had then.
    """

    question: str
    model: str
    replies: Sequence[Reply]
    files: Mapping[str, str]
    missing: Sequence[str]
    databases: Sequence[str]
    observations: Mapping[int, str]
    branches: int = 1
    rollback: Rollback | None = None


def header(
    question: str,
    model: str,
    files: Mapping[str, bytes],
    databases: Sequence[str],
    *,
    branches: int = 1,
    rollback: Rollback | None = None,
) -> dict[str, Any]:
    """The first line."""
    told = {path: _file(data) for path, data in sorted(files.items())}
    first: dict[str, Any] = {"schema": SCHEMA, "question": question, "model": model, "files": told}
    first["databases"] = sorted(databases)
    if branches > 1:
        first["branches"] = branches
    if rollback is not None:
        first["rollback"] = rollback
    return first


def line(event: Event) -> dict[str, Any]:
    """One event."""
    if isinstance(event, Replied):
        calls = [dataclasses.asdict(call) for call in event.reply.calls]
        cost = {name: each for name, each in dataclasses.asdict(event.reply.cost).items() if each is not None}
        return {"event": "replied", "turn": event.turn, "text": event.reply.text, "calls": calls, "cost": cost}
    if isinstance(event, Started):
        beside = {"beside": list(event.beside)} if event.beside else {}
        return {"event": "started", "run": event.run, "language": event.language, "source": event.source, **beside}
    if isinstance(event, Observed):
        return {
            "event": "observed",
            "run": event.run,
            "verdict": event.decision.verdict.value,
            "why": event.decision.why,
            "findings": [dataclasses.asdict(finding) for finding in event.findings],
            "observation": event.observation.text,
            "pictures": [{"name": picture.name, **_digest(picture.data)} for picture in event.observation.pictures],
            "receipt": receipt(event.source, event.execution),
            **({"beside": list(event.beside)} if event.beside else {}),
        }
    if isinstance(event, Noticed):
        of_run = {} if event.run is None else {"run": event.run}
        return {"event": "noticed", "kind": event.kind, "text": event.text, **of_run}
    return _ended(event)


def receipt(source: str, execution: Execution) -> dict[str, Any]:
    """What a run left, with pictures and documents by digest and size."""
    told = execution.to_dict()
    told["source"] = source
    told["value"] = None if told["value"] is None else _without_bytes(told["value"])
    told["displays"] = [_without_bytes(display) for display in told["displays"]]
    return told


def read(path: Path) -> Recording:
    """A recording from a file.

    Raises:
        InvalidArgument: It cannot be read, or is no recording; the message names the line.
    """
    try:
        if path.stat().st_size > MOST_BYTES:
            raise InvalidArgument("replay", f"{str(path)!r} has more than {MOST_BYTES} bytes; it is no recording")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidArgument("replay", f"{str(path)!r} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidArgument("replay", f"{str(path)!r} is not UTF-8") from None
    return parse(text, str(path))


def parse(text: str, name: str) -> Recording:
    """A recording from its text; `name` is for complaints."""
    records = [_record(each, name, number) for number, each in enumerate(text.split("\n"), 1) if each.strip()]
    if not records or records[0].get("schema") != SCHEMA:
        raise InvalidArgument("replay", f"{name!r} does not begin with a header of {SCHEMA}")
    first, replies, observations = records[0], [], {}
    for number, record in enumerate(records[1:], 2):
        try:
            if record.get("event") == "replied":
                replies.append(_reply(record))
            elif record.get("event") == "observed":
                observations[int(record["run"])] = str(record["observation"])
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidArgument("replay", f"{name!r}, line {number}: {type(error).__name__}: {error}") from None
    files = first.get("files", {})
    if not isinstance(files, dict) or not all(isinstance(each, dict) for each in files.values()):
        raise InvalidArgument("replay", f"{name!r}, line 1: `files` are objects by their path")
    branches, rollback = first.get("branches", 1), first.get("rollback")
    if type(branches) is not int or not 1 <= branches <= MOST_BRANCHES or rollback not in (None, "on_error"):
        problem = f'`branches` is a number from 1 to {MOST_BRANCHES}, `rollback` is "on_error"'
        raise InvalidArgument("replay", f"{name!r}, line 1: {problem}")
    return Recording(
        branches=branches,
        rollback=rollback,
        question=str(first.get("question", "")),
        model=str(first.get("model", "")),
        replies=replies,
        files={path: str(each["text"]) for path, each in files.items() if "text" in each},
        missing=[path for path, each in files.items() if "text" not in each],
        databases=[str(each) for each in first.get("databases", [])],
        observations=observations,
    )


def difference(recorded: str, now: str) -> str:
    """The first line in which two observations differ, or "" where they do not."""
    if recorded == now:
        return ""
    before, after = recorded.splitlines(), now.splitlines()
    for number, (old, new) in enumerate(zip(before, after, strict=False), 1):
        if old != new and _lasting(old) != _lasting(new):
            return f"line {number}: recorded {old!r}, now {new!r}"
    if len(before) != len(after):
        return f"recorded {len(before)} lines, now {len(after)}"
    return ""


def _lasting(text: str) -> str:
    """Without the mark of a part, which is a digest of all of them, and without the time of a run."""
    if text.startswith("run "):
        return _TOOK.sub("", text)
    head, blank, tail = text.rpartition(" ")
    return head if text.startswith("<") and blank and len(tail) == 9 and tail.endswith(">") else text


def _record(text: str, name: str, number: int) -> dict[str, Any]:
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidArgument("replay", f"{name!r}, line {number} is not JSON") from None
    if not isinstance(record, dict):
        raise InvalidArgument("replay", f"{name!r}, line {number} is no JSON object")
    return record


def _reply(record: Mapping[str, Any]) -> Reply:
    calls = [
        Call(name=str(call["name"]), arguments=call["arguments"], call_id=str(call.get("call_id", "")))
        for call in record.get("calls", [])
    ]
    counted = {name: record.get("cost", {}).get(name) for name in ("input_tokens", "output_tokens", "dollars")}
    if not all(each is None or isinstance(each, int | float) for each in counted.values()):
        raise ValueError("`cost` holds numbers")
    return Reply(text=str(record.get("text", "")), calls=calls, cost=Cost(**counted))


def _ended(event: Ended) -> dict[str, Any]:
    return {
        "event": "ended",
        "ending": event.ending.value,
        "answer": event.answer,
        "why": event.why,
        "unsupported": [dataclasses.asdict(warning) for warning in event.unsupported],
        "receipts": event.receipts,
        "spent": dataclasses.asdict(event.spent),
        "dollars": event.dollars,
    }


def _file(data: bytes) -> dict[str, Any]:
    told: dict[str, Any] = _digest(data)
    if len(data) <= _INLINE_BYTES:
        try:
            told["text"] = data.decode("utf-8")
        except UnicodeDecodeError:
            pass
    return told


def _digest(data: bytes) -> dict[str, Any]:
    return {"size_bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def _without_bytes(bundle: Mapping[str, Any]) -> dict[str, Any]:
    return {mime: _by_digest(mime, content) for mime, content in bundle.items()}


def _by_digest(mime: str, content: Any) -> Any:
    if mime not in BINARY_MEDIA or not isinstance(content, str):
        return content
    try:
        return _digest(base64.b64decode(content))
    except ValueError:
        return {"size_bytes": len(content), "broken": True}
