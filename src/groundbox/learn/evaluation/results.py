"""A folder with the results of one model on one suite, which a killed run leaves so that the next goes on from there.

`settings.json` says what was asked and how: a run with other settings is refused, so that figures are never mixed.
`answers.jsonl` has the replies (`groundbox.learn.evaluation.asking`), `results.jsonl` a line for each that was judged,
and `report.json` the figures, once all was gone through. What is judged can be judged again at no cost: lines of
results are kept only under the version of groundbox that wrote them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

from groundbox.dataset import files
from groundbox.errors import InvalidArgument
from groundbox.learn.evaluation.steps import Steps

JUDGES: Final = "1"
"""Version of what judges write; what another one wrote is judged again."""
SETTINGS: Final = "settings.json"
RESULTS: Final = "results.jsonl"
REPORT: Final = "report.json"
_LOCK: Final = ".lock"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Result:
    """A question with its reply, judged.

    Attributes:
        right: None where the judge failed, and such a result is not kept; or where metrics alone grade it.
        reason: `right`, `wrong`, or in a word what else was wrong.
        finish: Why the reply ended, as the endpoint says.
        repeated: Share of its runs of four words that it had before.
        steps: Claims of its reasoning beside the run; None where there is no run, or none was made of it.
        no_steps: Why there are none where there is a run.
        metrics: Values of the suite's own metrics; None where it has none.
        read: Which part of the reply was taken for the program, and why.
    """

    id: str
    group: str
    right: bool | None
    reason: str
    detail: str
    answer: str
    reply: str
    finish: str
    prompt_tokens: int
    completion_tokens: int
    repeated: float
    steps: Steps | None = None
    no_steps: str = ""
    metrics: Mapping[str, Any] | None = None
    read: str = ""

    def line(self) -> bytes:
        """A line of results.jsonl."""
        return json.dumps(dataclasses.asdict(self), ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


class Results:
    """The results so far, updated in place and on the disk. Belongs to one process at a time."""

    def __init__(self, folder: Path, file: IO[bytes], kept: dict[str, Result]) -> None:
        self.folder, self.kept = folder, kept
        self._file = file

    def add(self, result: Result) -> None:
        """Keep a result, unless its judge failed."""
        if result.right is None and result.metrics is None:
            return
        self.kept[result.id] = result
        self._file.write(result.line())
        self._file.flush()

    def finish(self, ids: Sequence[str], report: Mapping[str, Any]) -> None:
        """Write the results in the order of the questions, and the report.

        Args:
            ids: Of the questions that were asked now; others that were asked before stay below.
        """
        first = [name for name in ids if name in self.kept]
        asked = set(first)
        ordered = [*first, *(name for name in self.kept if name not in asked)]
        files.publish(self.folder / RESULTS, b"".join(self.kept[name].line() for name in ordered))
        files.publish(self.folder / REPORT, _json(report))


@contextlib.contextmanager
def opened(folder: Path, settings: Mapping[str, Any], versions: Mapping[str, str]) -> Iterator[Results]:
    """The results of a folder, for this process alone.

    Args:
        settings: All that decides what is asked and how.
        versions: Recorded; another one of groundbox has what was asked judged again.

    Raises:
        InvalidArgument: It holds something else, or the results of other settings, or another process is at work there.
    """
    if folder.exists() and not folder.is_dir():
        raise InvalidArgument("--out", f"{folder} is no folder")
    if folder.is_dir() and not (folder / SETTINGS).exists() and any(each.name != _LOCK for each in folder.iterdir()):
        raise InvalidArgument("--out", f"{folder} is not empty, and has no results of ours; name another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidArgument("--out", f"{folder} cannot be made: {error.strerror}") from None
    with files.locked(folder / _LOCK, InvalidArgument("--out", f"another evaluation is at work in {folder}")):
        same = _check(folder, settings, versions)
        kept = _read(folder / RESULTS) if same else {}
        with (folder / RESULTS).open("ab") as file:
            yield Results(folder, file, kept)


def read(folder: Path) -> tuple[dict[str, Any], dict[str, Any], list[Result]]:
    """The settings, the report and the results of a folder.

    Raises:
        InvalidArgument: There are none, or the run was not finished.
    """
    try:
        settings = json.loads((folder / SETTINGS).read_bytes())
        report = json.loads((folder / REPORT).read_bytes())
    except (OSError, ValueError) as error:
        what = "has not been finished" if (folder / SETTINGS).is_file() else f"holds no results: {error}"
        raise InvalidArgument(
            "FOLDER", f"{folder} {what}; `groundbox eval model --out {folder} …` makes them"
        ) from None
    return settings, report, [result for result, _ in _lines(folder / RESULTS)]


def _check(folder: Path, settings: Mapping[str, Any], versions: Mapping[str, str]) -> bool:
    """Tell whether the folder has results of the same version of ours."""
    path = folder / SETTINGS
    wanted = json.loads(_json(settings))
    if not path.exists():
        files.publish(path, _json({**settings, "versions": dict(versions)}))
        return True
    try:
        found = json.loads(path.read_bytes())
        before = found.pop("versions")
    except (ValueError, KeyError, AttributeError):
        raise InvalidArgument("--out", f"{path} is torn or none of ours; name another folder") from None
    if found != wanted:
        raise InvalidArgument(
            "--out",
            f"{folder} has results of other settings ({files.differences(found, wanted)}); "
            "repeat those to go on with it, or name another folder",
        )
    if before != versions:
        files.publish(folder / RESULTS, b"")  # first: a kill in between must not leave them under the new versions
    files.publish(path, _json({**settings, "versions": dict(versions)}))
    return bool(before == versions)


def _read(path: Path) -> dict[str, Result]:
    """The whole lines; what a kill tore is cut off, so that the next line does not go on from it."""
    found = list(_lines(path))
    if path.exists():
        os.truncate(path, found[-1][1] if found else 0)
    return {result.id: result for result, _ in found}


def _lines(path: Path) -> Iterator[tuple[Result, int]]:
    """The results of the whole lines up to the first torn one, each with the byte at which its line ends."""
    if not path.exists():
        return
    end = 0
    with path.open("rb") as file:
        for line in file:
            try:
                row = json.loads(line) if line.endswith(b"\n") else None
                result = None if row is None else Result(**{**row, "steps": row["steps"] and Steps(**row["steps"])})
            except (ValueError, TypeError, KeyError):
                return
            if result is None:
                return
            end += len(line)
            yield result, end


def _json(data: Mapping[str, Any]) -> bytes:
    return json.dumps(data, indent=1, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"
