"""Reads recorded answers with the runs they rest on; what is false is marked [[so]].

A transcript begins with `=== name`, has sections that begin with `--- kind`, and ends at the next one:
stdout, stderr, table (lines of CSV), json (the value as data), html, artifacts (path size facts), error, answer.
`--- run` begins another execution.
"""

import csv
import dataclasses
import io
import json
import re
from pathlib import Path

from groundbox.execution import Artifact, Artifacts, Display, Execution, Failure, Isolation, Outcome, Usage

FOLDER = Path(__file__).with_name("transcripts")
TABLE = "application/vnd.dataresource+json"


@dataclasses.dataclass
class Transcript:
    name: str
    question: str | None
    executions: list
    answer: str
    planted: list  # (start, end) in the answer


def execution(stdout="", stderr="", value=None, displays=(), artifacts=(), error=None, **more):
    fields = dict(  # noqa: C408
        execution_id="x", language="python", outcome=Outcome.OK, exit_code=0, exit_signal=None, stdout=stdout,
        stderr=stderr, dropped_bytes={"stdout": 0, "stderr": 0}, value=value, error=error, displays=list(displays),
        artifacts=Artifacts(artifacts), warnings=[],
        usage=Usage(wall_s=0.0123, cpu_s=0.0101, peak_memory_bytes=41943040, start_s=0.0, warm=True),
        isolation=Isolation(backend="bare", layers=[]),
    )  # fmt: skip
    return Execution(**{**fields, **more})


def table(text):
    rows = list(csv.DictReader(io.StringIO(text)))
    data = [{name: _cell(cell) for name, cell in row.items()} for row in rows]
    names = list(data[0])
    return {
        "text/plain": text,
        TABLE: {
            "schema": {"fields": [{"name": name} for name in names]},
            "data": data,
            "row_count": len(data),
            "column_count": len(names),
            "truncated": False,
        },
    }


def _cell(cell):
    if cell == "":
        return None
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            pass
    return cell


def read(name):
    """The transcripts of one file."""
    text = (FOLDER / name).read_text(encoding="utf-8")
    return [_transcript(part) for part in re.split(r"^=== ", text, flags=re.MULTILINE)[1:]]


def _transcript(part):
    head, *sections = re.split(r"^--- ", part, flags=re.MULTILINE)
    name, *more = head.strip().splitlines()
    question = more[0].removeprefix("question: ") if more else None
    runs, answer = [{}], ""
    for section in sections:
        kind, _, body = section.partition("\n")
        kind = kind.strip()
        body = body.rstrip("\n") + "\n"
        if kind == "answer":
            answer = body
        elif kind == "run":
            runs.append({})
        else:
            _add(runs[-1], kind, body)
    plain, planted = _unmarked(answer)
    return Transcript(name.strip(), question, [execution(**run) for run in runs if run], plain, planted)


def _add(run, kind, body):
    if kind in ("stdout", "stderr"):
        run[kind] = body
    elif kind == "table":
        run["value"] = table(body)
    elif kind == "text":
        run["value"] = {"text/plain": body.strip("\n")}
    elif kind == "json":
        run["value"] = {"text/plain": "…", "application/vnd.groundbox.value+json": json.loads(body)}
    elif kind == "html":
        run["displays"] = [Display(data={"text/plain": "<page>", "text/html": body})]
    elif kind == "artifacts":
        run["artifacts"] = [_artifact(line) for line in body.strip().splitlines()]
    elif kind == "error":
        type_, _, rest = body.strip().partition(": ")
        message, _, line = rest.rpartition(" line ")
        run["error"] = Failure(type=type_, message=message, line=int(line))
        run.update(outcome=Outcome.ERROR, exit_code=1)
    else:
        raise ValueError(kind)


def _artifact(line):
    path, size, facts = line.split(" ", 2) if line.count(" ") > 1 else (*line.split(" "), "{}")
    return Artifact(path=path, size_bytes=int(size), media_type="text/plain", sha256="0" * 64, facts=json.loads(facts))


def _unmarked(answer):
    plain, planted, at = "", [], 0
    for match in re.finditer(r"\[\[(.*?)\]\]", answer):
        plain += answer[at : match.start()]
        planted.append((len(plain), len(plain) + len(match[1])))
        plain += match[1]
        at = match.end()
    return plain + answer[at:], planted


def judged(transcript, report):
    """Missed planted mentions, false alarms, and how many true mentions there are."""
    hits = [(m.start, m.end) for m in report.unsupported]
    missed = [p for p in transcript.planted if not any(s < p[1] and p[0] < e for s, e in hits)]
    alarms = [m for m in report.unsupported if not any(m.start < e and s < m.end for s, e in transcript.planted)]
    return missed, alarms, len(report.mentions)
