"""Suites that ask what a program does: a split of a dataset, and CRUXEval's outputs and inputs.

Answers are literals, or calls that are run in a sandbox; how is `groundbox.dataset.tasks.checking`. The run that a
question is about is recorded once more, so that the steps of a reply can be held against it.
"""

from __future__ import annotations

import dataclasses
import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from groundbox.dataset import files, optional_imports, sample_files
from groundbox.dataset.build import read_report
from groundbox.dataset.item_runs import TRACED_SEED
from groundbox.dataset.problem import ABSENT, Drop, Problem
from groundbox.dataset.problems.formats import CRUXEVAL
from groundbox.dataset.problems.reading import read
from groundbox.dataset.program_runner import Request
from groundbox.dataset.prompts import ask
from groundbox.dataset.reproof import problem_of
from groundbox.dataset.sample_files import Sample
from groundbox.dataset.selection import SPLITS
from groundbox.dataset.tasks import checking
from groundbox.dataset.tasks.registry import TASKS
from groundbox.dataset.tasks.task import Draft
from groundbox.errors import InvalidArgument
from groundbox.learn.evaluation.replies import Said
from groundbox.learn.evaluation.suites import (
    Judged,
    Means,
    Question,
    Wanted,
    check_ids,
    file_of,
    no_question,
    source_of,
)
from groundbox.trace_options import TraceOptions
from groundbox.values import literals

_OF_OTHER_RUNS: Final = frozenset({"input", "repair"})
"""Tasks whose reasoning tells other runs than the item's, or what did not happen."""
_RESULTS: Final = frozenset({"output", "exception"})
_TRACED_CPU_S: Final = 20.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Predicting:
    """Questions about programs.

    Attributes:
        trace_options: How much of their runs is recorded.
    """

    name: str
    source: Mapping[str, Any]
    questions: Sequence[Question]
    left_out: Mapping[str, int]
    trace_options: TraceOptions = dataclasses.field(default_factory=TraceOptions)

    def judge_alone(self) -> Predicting:
        """See Movable.judge_alone."""
        return dataclasses.replace(self, questions=())

    async def judge(self, question: Question, said: Said, means: Means) -> Judged:
        """See Judging.judge."""
        if said.lacks:
            return Judged(right=False, reason=said.lacks)
        check, problem = question.right
        right = await checking.right_by_running(
            check, said.answer, problem=problem, runner=means.runner, cpu_s=means.cpu_s
        )
        return Judged(right=right, reason="right" if right else "wrong")


def open_dataset(wanted: Wanted) -> Predicting:
    """A split of the dataset in a folder, each sample with its own words.

    Raises:
        InvalidArgument: There is no dataset, its samples are not those that were written, or none is of this kind.
    """
    if not wanted.place:
        raise InvalidArgument("--suite", "name the dataset's folder, as in dataset:FOLDER")
    folder = Path(wanted.place)
    optional_imports.parquet()
    try:
        report = read_report(folder)
    except InvalidArgument as error:
        raise InvalidArgument("--suite", error.problem) from None
    digest = _unchanged(folder, report)
    for given, known, argument in ((wanted.tasks, TASKS, "--task"), ([wanted.split], SPLITS, "--split")):
        if unknown := [each for each in given if each not in known]:
            raise InvalidArgument(argument, f"there is no {unknown[0]!r}; there are {', '.join(known)}")
    cpu_s = float(report["arguments"]["patience"]["traced_cpu_s"])
    questions = [
        _of_sample(row, cpu_s)
        for row in sample_files.read_samples(folder / sample_files.SAMPLES)
        if row.split == wanted.split and (not wanted.tasks or row.task in wanted.tasks)
    ]
    if not questions:
        raise InvalidArgument("--suite", f"the split {wanted.split} of {folder} has no sample of these tasks")
    source = {
        "name": folder.resolve().name,
        "samples": digest,
        "split": wanted.split,
        "tasks": sorted(set(wanted.tasks) or {each.group for each in questions}),
    }
    options = TraceOptions(**report["arguments"]["trace"])
    return Predicting(name="dataset", source=source, questions=questions, left_out={}, trace_options=options)


def open_cruxeval_output(wanted: Wanted) -> Predicting:
    """CRUXEval's programs with their arguments; asked is what the call returns."""
    return _cruxeval(wanted, "cruxeval-output", _output_question)


def open_cruxeval_input(wanted: Wanted) -> Predicting:
    """CRUXEval's programs with their results; asked are arguments for which the call returns that. Any are right."""
    return _cruxeval(wanted, "cruxeval-input", _input_question)


def _unchanged(folder: Path, report: Mapping[str, Any]) -> str:
    """The digest of a dataset's samples.

    Raises:
        InvalidArgument: The file is not the one that was written.
    """
    path = folder / sample_files.SAMPLES
    if not path.is_file():
        raise InvalidArgument("--suite", f"{path} is missing")
    digest, told = files.digest(path), report.get("files", {}).get(sample_files.SAMPLES)
    if digest != told:
        raise InvalidArgument(
            "--suite",
            f"{path} was changed since it was written: its digest is {digest[:12]}…, {folder}/report.json has "
            f"{str(told)[:12]}…; `groundbox dataset verify {folder}` says what differs, `dataset build` makes it anew",
        )
    return digest


def _of_sample(row: Sample, cpu_s: float) -> Question:
    problem = problem_of(row)
    run = None if row.task in _OF_OTHER_RUNS else _recorded(problem, cpu_s)
    return Question(
        id=row.id,
        prompt=row.prompt,
        group=row.task,
        right=(json.loads(row.check), problem),
        run=run,
        asks_result=row.task in _RESULTS,
        program=row.source,
    )


def _recorded(problem: Problem, cpu_s: float) -> Request:
    return Request(
        source=problem.source,
        entry=problem.entry,
        case=problem.cases[0],
        hash_seed=TRACED_SEED,
        traced=True,
        cpu_s=cpu_s,
    )


def _cruxeval(wanted: Wanted, name: str, make: Any) -> Predicting:
    path = file_of(wanted, f"{name}:cruxeval.jsonl")
    left_out: Counter[str] = Counter()
    questions = list(_questions(path, make, left_out))
    if not questions:
        raise no_question(path, "CRUXEval (code, input, output) with literals", left_out)
    check_ids(path, questions)
    return Predicting(name=name, source=source_of(path), questions=questions, left_out=dict(left_out))


def _questions(path: Path, make: Any, left_out: Counter[str]) -> Iterator[Question]:
    for found in read(path, format=CRUXEVAL):
        if isinstance(found, Drop):
            left_out[found.reason] += 1
        elif found.cases[0].expected is ABSENT:
            left_out["output-not-a-literal"] += 1
        else:
            yield make(found)


def _output_question(problem: Problem) -> Question:
    expected = literals.text(problem.cases[0].expected)
    draft = Draft(
        task="output",
        question="What does the call return? Work through the program step by step.",
        answer=expected,
        check={"kind": "value", "value": expected},
        reasoning="",
    )
    return Question(
        id=problem.id,
        prompt=_worded(problem, draft),
        right=(draft.check, problem),
        run=_recorded(problem, _TRACED_CPU_S),
        asks_result=True,
        program=problem.source,
    )


def _input_question(problem: Problem) -> Question:
    expected = literals.text(problem.cases[0].expected)
    draft = Draft(
        task="input",
        question=f"Find arguments for which `{problem.entry}` returns `{expected}`. "
        "Any arguments that lead to this result are right. Answer with the whole call, its arguments as literals.",
        answer="",
        check={"kind": "call", "value": expected},
        reasoning="",
        shows_input=False,
    )
    return Question(id=problem.id, prompt=_worded(problem, draft), right=(draft.check, problem), program=problem.source)


def _worded(problem: Problem, draft: Draft) -> str:
    """The question as a dataset words it, always in the same of its wordings."""
    return ask(problem, problem.cases[0], draft, random.Random(0))
