"""Suites that ask for a program: HumanEval, MBPP, PAL. Each program runs in a sandbox and cannot steer its verdict.

A reply's program is the block that defines what was asked for (endpoint/programs.py); no `Answer:` line is looked for.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from groundbox.dataset.problem import Drop
from groundbox.dataset.problems.formats import MBPP
from groundbox.dataset.problems.reading import read, rows
from groundbox.endpoint.programs import program_of
from groundbox.errors import InvalidArgument
from groundbox.learn.evaluation import humaneval, pal, records
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
from groundbox.values.parsing import module_of

_COMPLETE: Final = """Complete this Python function:

```python
{prompt}
```

Reply with one fenced block of Python that holds the whole function, with the imports that it needs."""
_WRITE: Final = """{text}

Write a Python function `{entry}` for this. It has to pass tests such as:

```python
{tests}
```

Reply with one fenced block of Python that holds the whole function, with the imports that it needs."""
_CALCULATE: Final = """{question}

Write a Python function `solution()` without arguments that works out the answer and returns it as a number.
Reply with one fenced block of Python that holds the whole function, with the imports that it needs."""
_TESTS_SHOWN: Final = 3


@dataclasses.dataclass(frozen=True, kw_only=True)
class Programming:
    """Questions whose replies are programs.

    Attributes:
        score: Of a question and a program.
        entry: The function that a question's program has to define.
    """

    name: str
    source: Mapping[str, Any]
    questions: Sequence[Question]
    left_out: Mapping[str, int]
    score: Callable[[Question, str, Means], Any]
    entry: Callable[[Question], str]

    def judge_alone(self) -> Programming:
        """See Movable.judge_alone."""
        return dataclasses.replace(self, questions=())

    async def judge(self, question: Question, said: Said, means: Means) -> Judged:
        """See Judging.judge. A block that was cut off is a program like any other: it fails by itself."""
        if said.lacks_text and not said.text:
            return Judged(right=False, reason=said.lacks_text)
        chosen = program_of(said.text, self.entry(question))
        judged: Judged = await self.score(question, chosen.text, means)
        return judged._replace(read=chosen.why)


def open_humaneval(wanted: Wanted) -> Programming:
    """HumanEval's problems; a verdict is that of `groundbox eval humaneval`."""
    path = file_of(wanted, "humaneval:HumanEval.jsonl.gz")
    problems = humaneval.read_problems(path, argument="--suite")
    questions = [
        Question(
            id=name,
            prompt=_COMPLETE.format(prompt=each.prompt.rstrip("\n")),
            right=each,
            program=each.prompt + each.canonical_solution,
        )
        for name, each in problems.items()
    ]
    return Programming(
        name="humaneval", source=source_of(path), questions=questions, left_out={}, score=_passes, entry=_entry_point
    )


def open_mbpp(wanted: Wanted) -> Programming:
    """MBPP's problems; the model sees the first three asserts, as is usual, and all of them judge."""
    path = file_of(wanted, "mbpp:mbpp.jsonl")
    left_out: Counter[str] = Counter()
    questions = list(_mbpp(path, left_out))
    if not questions:
        raise no_question(path, "MBPP (text or prompt, code, test_list)", left_out)
    return Programming(
        name="mbpp",
        source=source_of(path),
        questions=questions,
        left_out=dict(+left_out),
        score=_passes,
        entry=_entry_point,
    )


def open_pal(wanted: Wanted) -> Programming:
    """Lines of `{"question", "answer"}`, with an `id` if they have one: programs that work out a number."""
    path = file_of(wanted, "pal:questions.jsonl")
    questions = []
    for number, (place, row) in enumerate(records.rows("--suite", path)):
        text, answer = records.text("--suite", place, row, "question"), pal.number(row.get("answer"))
        if answer is None:
            raise InvalidArgument("--suite", f"{place} has no number under 'answer'")
        name = str(row.get("id", number))
        questions.append(Question(id=name, prompt=_CALCULATE.format(question=text), right=answer))
    if not questions:
        raise no_question(path, "PAL (question, answer)", {})
    check_ids(path, questions)
    return Programming(
        name="pal",
        source=source_of(path),
        questions=questions,
        left_out={},
        score=_calculates,
        entry=lambda question: pal.ENTRY,
    )


def _entry_point(question: Question) -> str:
    problem: humaneval.Problem = question.right
    return problem.entry_point


async def _passes(question: Question, program: str, means: Means) -> Judged:
    problem: humaneval.Problem = question.right
    sample = humaneval.Sample(task_id=problem.task_id, program=_whole(problem, program))
    found = await humaneval.judge(problem, sample, limits=means.limits, options=means.sandbox)
    if found.reason == "tests":
        return Judged(right=None, reason="tests", detail=found.detail)
    return Judged(right=found.passed, reason="right" if found.passed else found.reason, detail=found.detail)


async def _calculates(question: Question, program: str, means: Means) -> Judged:
    item = pal.Item(question=question.prompt, program=program, answer=question.right)
    found = await pal.score(item, limits=means.limits, options=means.sandbox)
    return Judged(right=found.right, reason=found.reason)


def _whole(problem: humaneval.Problem, program: str) -> str:
    """A program with what stands before the function in the prompt; a mere body is put below the prompt."""
    before, header, _ = problem.prompt.partition(f"def {problem.entry_point}(")
    if not header or _defines(program, problem.entry_point):
        return f"{before if header else ''}\n{program}"
    body = program if program.startswith((" ", "\t")) else "".join(f"    {line}\n" for line in program.splitlines())
    return problem.prompt + body


def _defines(program: str, name: str) -> bool:
    try:
        return name in _names_of(module_of(program))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return f"def {name}(" in program


def _mbpp(path: Path, left_out: Counter[str]) -> Iterator[Question]:
    lines = {number: row for number, row in rows(path) if isinstance(row, dict)}
    for found in read(path, format=MBPP):
        if isinstance(found, Drop):
            left_out[found.reason] += (
                found.reason != "input-not-a-literal"
            )  # an assert like this is a test all the same
            continue
        row = lines[found.provenance.line]
        asserts = [str(each) for each in (*row["test_list"], *(row.get("challenge_test_list") or ()))]
        setup = "\n".join(map(str, [row.get("test_setup_code") or "", *(row.get("test_imports") or ())])).strip()
        entry = str(found.entry)
        tests, program = (_module(text) for text in ("\n".join([setup, *asserts]), found.source))
        wanted = _free_names(tests)
        if _names_of(program) & wanted - {entry} or _hands_over_types(tests, entry):
            left_out["tests-take-no-data"] += 1  # but instances of the program's classes, say, which no reply can have
            continue
        setup = "\n".join([*_imports(program, wanted), setup])
        body = "\n".join(asserts).replace("\n", "\n    ")
        problem = humaneval.Problem(
            task_id=found.id,
            prompt=f"def {entry}(*args, **kwargs):",
            entry_point=entry,
            test=f"{setup}\n\ndef check(candidate):\n    {body}\n",
            canonical_solution=found.source,
        )
        shown = "\n".join(str(each) for each in row["test_list"][:_TESTS_SHOWN])
        yield Question(
            id=found.id,
            prompt=_WRITE.format(text=found.statement, entry=entry, tests=shown),
            right=problem,
            program=found.source,
        )


def _module(text: str) -> ast.Module:
    try:
        return module_of(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])


def _free_names(tree: ast.Module) -> set[str]:
    """Names that a module reads and does not bind itself."""
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    bound = {each.id for each in names if not isinstance(each.ctx, ast.Load)} | _names_of(tree)
    bound |= {name for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom) for name in _bound(node)}
    return {each.id for each in names} - bound


def _names_of(tree: ast.Module) -> set[str]:
    """Functions, classes and values that a module defines."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    defined = {each.name for each in tree.body if isinstance(each, kinds)}
    targets = [target for each in tree.body if isinstance(each, ast.Assign) for target in each.targets]
    return defined | {target.id for target in targets if isinstance(target, ast.Name)}


def _imports(program: ast.Module, wanted: set[str]) -> Iterator[str]:
    """Imports of the reference program that bind names which the tests read: MBPP runs both in one module."""
    for node in program.body:
        if isinstance(node, ast.Import | ast.ImportFrom) and wanted.intersection(_bound(node)):
            yield ast.unparse(node)


def _bound(node: ast.Import | ast.ImportFrom) -> list[str]:
    return [each.asname or each.name.partition(".")[0] for each in node.names]


def _hands_over_types(tests: ast.Module, entry: str) -> bool:
    """Return whether a built-in class, such as `int`, is an argument of the function itself."""
    calls = [node for node in ast.walk(tests) if isinstance(node, ast.Call)]
    own = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == entry]
    given = [each for call in own for each in (*call.args, *(keyword.value for keyword in call.keywords))]
    return any(isinstance(each, ast.Name) and isinstance(getattr(builtins, each.id, None), type) for each in given)
