"""What a model is shown of a run: one text within a number of tokens, and pictures.

The parts come in the order that a reader needs them: how it ended; the value, what was printed, what was shown, the
files it made; findings, that is evidence that a success is wrong; the failure with its hints; what is left to spend.
Every part that holds anything of the guest stands between marks that the guest cannot write (`defusing`); outside of
them are words and numbers of ours only. Findings and hints quote names and values of the guest's data, and are
inside for that reason.

The tokens are shared by weight, and what one part does not need goes to the others. What is left out is counted
where it is missing, with the handle that `read_output` takes.
The same execution gives the same text: it holds no time below a second, and no number made at random.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from groundbox.agent import tables
from groundbox.agent.budget import cut, shares, tokens_of
from groundbox.agent.defusing import fenced, mark_for, one_line, shown
from groundbox.agent.folding import folded
from groundbox.agent.pictures import Picture, pictures_of
from groundbox.errors import InvalidArgument
from groundbox.execution import CHART, Execution, Outcome, Warning

FEWEST_TOKENS: Final = 400
ROLLED_BACK: Final = "session.rolled_back"
TIERS: Final = ("error", "warn", "note")
_WEIGHTS: Final = {
    "error": 5.0,
    "findings": 3.0,
    "value": 4.0,
    "stdout": 4.0,
    "stderr": 2.0,
    "displays": 2.0,
    "files": 2.0,
}
_ORDER: Final = ("value", "stdout", "stderr", "displays", "files", "findings", "error")
_ENDS: Final = {
    Outcome.OK: "ok",
    Outcome.ERROR: "failed",
    Outcome.TIMEOUT: "stopped at its time limit",
    Outcome.MEMORY: "ended, because its memory was used up",
    Outcome.SIGNAL: "crashed",
    Outcome.CANCELLED: "interrupted",
}
_READABLE: Final = ("stdout", "stderr", "value")
_ENDS_A_PROCESS: Final = frozenset({Outcome.TIMEOUT, Outcome.MEMORY, Outcome.SIGNAL})
_LONG_S: Final = 1.0
_MOST_FILES: Final = 40
_MOST_FINDING_CHARS: Final = 2000
_LEAST_TOKENS: Final = 34
"""What the line takes that says how much of a part is left out."""
_MOST_NAMES: Final = 20


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """How much of a run is shown.

    Attributes:
        max_tokens: Of the text, estimated (`budget`); pictures are not in it.
        max_pictures: Those over it are named and not sent.
    """

    max_tokens: int = 2000
    max_pictures: int = 4

    def __post_init__(self) -> None:
        if self.max_tokens < FEWEST_TOKENS:
            raise InvalidArgument("max_tokens", f"must be at least {FEWEST_TOKENS}, not {self.max_tokens!r}")
        if self.max_pictures < 0:
            raise InvalidArgument("max_pictures", f"must be 0 or more, not {self.max_pictures!r}")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Observation:
    """What is sent.

    Attributes:
        dropped_bytes: Part to the bytes that are missing from it in this text.
    """

    text: str
    pictures: Sequence[Picture] = ()
    dropped_bytes: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @property
    def tokens(self) -> int:
        """The estimate for the text."""
        return tokens_of(self.text)


_USUAL: Final = Shape()


def observe(
    execution: Execution,
    *,
    run: int | None = 1,
    findings: Sequence[Warning] = (),
    notes: Sequence[str] = (),
    shape: Shape = _USUAL,
) -> Observation:
    """The observation of one run.

    Args:
        run: Its number in the conversation; handles begin with it, such as `3.stdout`. None where nothing is numbered
            and there is no `read_output`.
        findings: What checks found, besides the execution's own warnings.
        notes: Sentences of ours at the end, such as advice and what is left. No word of a guest belongs there.
    """
    pictures, refused = pictures_of(execution)
    sent = pictures[: shape.max_pictures]
    found = [warning for warning in execution.warnings if warning.code != ROLLED_BACK]  # the head tells that one
    parts = dict(_parts(execution, [*found, *findings], sent, refused))
    head = _head(execution, run, nothing=not parts, pictures=(len(sent), len(pictures)))
    allowed = shape.max_tokens - tokens_of("\n".join((head, *notes))) - sum(map(_fence_tokens, parts))
    needs = {name: _need(part) for name, part in parts.items()}
    least = {name: min(need, _LEAST_TOKENS) for name, need in needs.items()}
    rest = {name: need - least[name] for name, need in needs.items()}
    given = shares(rest, _WEIGHTS, allowed - sum(least.values()))
    texts: dict[str, str] = {}
    dropped: dict[str, int] = {}
    for name in _ORDER:
        if name in parts:
            texts[name], dropped[name] = _fitted(parts[name], least[name] + given[name], execution, run, name)
    mark = mark_for(texts.values())
    body = [fenced(name, text, mark) for name, text in texts.items()]
    lost = {name: count for name, count in dropped.items() if count}
    return Observation(text="\n".join([head, *body, *notes]), pictures=sent, dropped_bytes=lost)


def _parts(
    execution: Execution, warnings: Sequence[Warning], sent: Sequence[Picture], refused: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    pictures = {**{picture.name: "attached" for picture in sent}, **refused}
    makers: dict[str, Callable[[], str]] = {
        "value": lambda: "" if execution.value is None else bundle_text(execution.value, pictures.get("value")),
        "stdout": lambda: folded(execution.stdout),
        "stderr": lambda: folded(execution.stderr),
        "displays": lambda: "\n".join(_displays(execution, pictures)),
        "files": lambda: "" if is_undone(execution) else "\n".join(_files(execution, pictures)),
        "findings": lambda: "\n".join(finding_lines(warnings)),
        "error": lambda: "" if execution.error is None else str(execution.error),
    }
    for name, make in makers.items():
        if (text := make()).strip():
            yield name, text


def _head(execution: Execution, run: int | None, *, nothing: bool, pictures: tuple[int, int]) -> str:
    called = execution.language if run is None else f"run {run} ({execution.language})"
    told = [f"{called}: {_ENDS[execution.outcome]}"]
    if execution.usage.wall_s >= _LONG_S:
        told.append(f"after {execution.usage.wall_s:.0f} s")
    if execution.state == "lost":
        told.append("the process is gone and its variables with it; files are kept")
    elif execution.state == "ended" and execution.outcome in _ENDS_A_PROCESS:
        told.append("the process is gone; files are kept")
    if is_undone(execution):
        told.append("variables and files are as they were before it")
    if nothing:
        told.append("it printed nothing and its last expression has no value")
    count, all_of_them = pictures
    if all_of_them:
        told.append(f"{count} of {all_of_them} pictures attached" if count < all_of_them else "pictures attached")
    return ", ".join(told)


def is_undone(execution: Execution) -> bool:
    """Whether variables and files are as they were before the run; what it wrote is in the result alone."""
    return any(warning.code == ROLLED_BACK for warning in execution.warnings)


def _fence_tokens(name: str) -> int:
    return tokens_of(fenced(name, "", "12345678")) + 1


def _need(part: str) -> int:
    """Shown texts may grow by escapes, or shrink; `cut` takes one whole that fits both as it is and as it is shown."""
    return max(tokens_of(part), tokens_of(part if len(part) > _MOST_FULLY_SHOWN else shown(part))) + 1


_MOST_FULLY_SHOWN: Final = 32 * 1024


def _fitted(part: str, max_tokens: int, execution: Execution, run: int | None, name: str) -> tuple[str, int]:
    gone = 0
    more = "" if run is None or name not in _READABLE else f'; read_output("{run}.{name}")'
    if name in ("stdout", "stderr"):
        gone = execution.dropped_bytes.get(name, 0)
        part = part.replace(f"\n… {gone} bytes left out …\n", "\n", 1) if gone else part
    return cut(part, max_tokens, more=more, gone_bytes=gone, show=shown)


def bundle_text(bundle: Mapping[str, Any], picture: str | None = None) -> str:
    """A MIME bundle in words: what table it is, its text, and which other forms there are."""
    text = bundle.get("text/plain")
    told = [tables.about(bundle), text if isinstance(text, str) else ""]
    forms = [mime for mime in bundle if mime not in ("text/plain", tables.MIME, CHART)]
    if picture:
        told.append(f"picture: {picture}")
    elif forms and not told[0]:
        told.append(f"also as {', '.join(forms)}")
    return "\n".join(line for line in told if line)


def _displays(execution: Execution, pictures: Mapping[str, str]) -> Iterator[str]:
    for number, display in enumerate(execution.displays, 1):
        name = f"display {number}"
        missing = "not attached" if any(mime.startswith("image/") for mime in display.data) else None
        yield f"{name}: {bundle_text(display.data, pictures.get(name, missing))}"
    if count := execution.dropped_bytes.get("displays", 0):
        yield f"… {count} displays more …"


def _files(execution: Execution, pictures: Mapping[str, str]) -> Iterator[str]:
    artifacts = list(execution.artifacts.values())
    for artifact in artifacts[:_MOST_FILES]:
        told = [f"{artifact.size_bytes} bytes", artifact.media_type]
        told += [artifact.about] if artifact.about else []
        names = artifact.facts.get("column_names")
        told += [f"columns {_some(names)}"] if isinstance(names, list) and names else []
        told += [f"picture {pictures[artifact.path]}"] if artifact.path in pictures else []
        yield f"{one_line(artifact.path)}: {', '.join(told)}"
    more = max(0, len(artifacts) - _MOST_FILES) + execution.dropped_bytes.get("artifacts", 0)
    if more:
        yield f"… {more} files more …"


def _some(names: Sequence[Any]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(one_line(str(name)) for name in names[:_MOST_NAMES]) + more


def finding_lines(warnings: Sequence[Warning]) -> Iterator[str]:
    """Findings, the most certain first."""
    known = {tier: number for number, tier in enumerate(TIERS)}
    for warning in sorted(warnings, key=lambda each: known.get(each.tier, len(TIERS))):
        yield f"{warning.tier} {warning.code}: {one_line(warning.message, _MOST_FINDING_CHARS)}"
        if warning.hint:
            yield f"    hint: {one_line(warning.hint, _MOST_FINDING_CHARS)}"
