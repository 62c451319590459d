"""What a message asks, and what an answer is made of: the parts of Agent2Agent, read and written.

Texts without a file name are the question; all else is a file of the workdir. Nothing is fetched: a part that holds an
address is refused, because the host would be the one that goes there.
"""

from __future__ import annotations

import json
import mimetypes
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from a2a.types import Message, Part
from google.protobuf import json_format, struct_pb2

from groundbox.agent.a2a.service import Service
from groundbox.agent.defusing import one_line, shown
from groundbox.agent.events import Ended, Observed
from groundbox.agent.pictures import Picture, pictures_of
from groundbox.errors import GuestFileError, InvalidArgument
from groundbox.execution import Artifact, Warning

TEXT: Final = "text/plain"
JSON: Final = "application/json"
_LONGEST_LINE: Final = 100


class Asked(NamedTuple):
    """A question with the files that came with it, path to content."""

    question: str
    files: dict[str, bytes | str]


class Left(NamedTuple):
    """Something that the runs left: a file, or a picture that was shown. It is read when it is known to fit."""

    name: str
    media_type: str
    size_bytes: int
    read: Callable[[], bytes]


class LeftOut(NamedTuple):
    """Something that they left and that is not in the answer."""

    name: str
    why: str


def asked(message: Message, service: Service) -> Asked:
    """What a message asks.

    Raises:
        InvalidArgument: It cannot be meant, or is too much.
    """
    question = "\n".join(part.text for part in message.parts if _is_question(part)).strip()
    if not question:
        raise InvalidArgument("message", "holds no question. Send it as a text part")
    if (size := len(question.encode("utf-8", "replace"))) > service.max_question_bytes:
        problem = f"its text has {size} bytes, more than {service.max_question_bytes}. Send what is long as a file"
        raise InvalidArgument("message", problem)
    files: dict[str, bytes | str] = {}
    for number, part in enumerate(message.parts, 1):
        if _is_question(part):
            continue
        name, content = _file(part, number)
        if name in files:
            raise InvalidArgument("message", f"has two files named {one_line(name)!r}. Give each its own name")
        files[name] = content
    if len(files) > service.max_files:
        raise InvalidArgument("message", f"has {len(files)} files, more than {service.max_files}. Send an archive")
    return Asked(question, files)


def run_line(event: Observed) -> str:
    """One run on one line: how it ended, what becomes of it, and the first line of the program."""
    first = next((line.strip() for line in event.source.splitlines() if line.strip()), "")
    told = [event.observation.text.partition("\n")[0]]
    if event.decision.verdict != "accept":
        told.append(f"{event.decision.verdict}: {one_line(event.decision.why)}")
    return f"{'; '.join(told)}; {one_line(first, _LONGEST_LINE)}"


def answer_parts(ended: Ended, *, accepted: Sequence[str], service: Service) -> list[Part]:
    """An answer: its text, what it claims without a receipt, and what the runs left. It reads files.

    Args:
        accepted: Media types that the asker reads; any, where it names none.
    """
    omitted = list(_dropped(ended))
    made: list[Part] = []
    room = service.max_answer_bytes
    for each in _left(ended):
        if why := _refusal(each, accepted, room, service):
            omitted.append(LeftOut(each.name, why))
            continue
        try:
            data = each.read()
        except GuestFileError as error:
            omitted.append(LeftOut(each.name, one_line(error.reason)))
            continue
        room -= len(data)
        made.append(Part(raw=data, filename=each.name, media_type=each.media_type))
    about = {
        "checked": ended.receipts is not None,
        "unsupported": [_claim(warning) for warning in ended.unsupported],
        "omitted": [each._asdict() for each in omitted],
        "turns": ended.spent.turns,
        "runs": ended.spent.runs,
    }
    told = json_format.ParseDict(about, struct_pb2.Value())
    return [Part(text=shown(ended.answer or ""), media_type=TEXT), Part(data=told, media_type=JSON), *made]


def verdict_line(ended: Ended) -> str:
    """How far an answer is borne out, for those who read no data."""
    if ended.receipts is None:
        return "Answered. The answer was not checked against the runs."
    count = len(ended.unsupported)
    if not count:
        return "Answered."
    return f"Answered. {'A claim' if count == 1 else f'{count} claims'} of it no run bears out."


def _is_question(part: Part) -> bool:
    return bool(part.HasField("text")) and not part.filename


def _file(part: Part, number: int) -> tuple[str, bytes | str]:
    ending = mimetypes.guess_extension(part.media_type.partition(";")[0].strip()) or ""
    name = part.filename or f"part-{number}{ending}"
    if part.HasField("raw"):
        return name, bytes(part.raw)
    if part.HasField("text"):
        return name, str(part.text)
    if part.HasField("data"):
        return part.filename or f"part-{number}.json", _json(part.data)
    if part.HasField("url"):
        raise InvalidArgument(
            "message", f"part {number} is an address, and nothing is fetched. Send the bytes as `raw`"
        )
    raise InvalidArgument("message", f"part {number} is empty. Send `text`, `raw` or `data`")


def _json(value: Any) -> str:
    try:
        return json.dumps(json_format.MessageToDict(value), ensure_ascii=False)
    except (json_format.Error, ValueError) as error:
        raise InvalidArgument("message", f"its data is no JSON: {error}") from None


def _left(ended: Ended) -> Iterator[Left]:
    seen: set[bytes] = set()
    files: dict[str, Artifact] = {}
    for run, execution in enumerate(ended.executions, 1):
        files.update(execution.artifacts)
        for picture in pictures_of(execution)[0]:
            if picture.name not in execution.artifacts and picture.data not in seen:
                seen.add(picture.data)
                yield _picture(run, picture)
    for path, file in files.items():
        yield Left(one_line(path), one_line(file.media_type), file.size_bytes, file.read)


def _picture(run: int, picture: Picture) -> Left:
    ending = "jpg" if picture.media_type == "image/jpeg" else "png"
    name = f"run-{run}-{picture.name.replace(' ', '-')}.{ending}"
    return Left(name, picture.media_type, len(picture.data), lambda: picture.data)


def _dropped(ended: Ended) -> Iterator[LeftOut]:
    for run, execution in enumerate(ended.executions, 1):
        for name in ("displays", "artifacts"):
            if count := execution.dropped_bytes.get(name, 0):
                yield LeftOut(f"run {run}", f"{count} {name} more than a result holds")


def _refusal(left: Left, accepted: Sequence[str], room: int, service: Service) -> str:
    if left.size_bytes > room:
        return f"{left.size_bytes} bytes, over max_answer_bytes={service.max_answer_bytes} together"
    return "" if _is_accepted(left.media_type, accepted) else f"{left.media_type} is not accepted"


def _is_accepted(media_type: str, accepted: Sequence[str]) -> bool:
    group = media_type.partition("/")[0]
    return not accepted or any(each in (media_type, f"{group}/*", "*/*", "*") for each in accepted)


def _claim(warning: Warning) -> dict[str, str]:
    told = {"code": warning.code, "tier": warning.tier, "message": warning.message, "hint": warning.hint}
    return {name: shown(text) for name, text in told.items() if text}
