"""Rules on libraries: DataFrames, warnings on stderr, and numbers that are none in the answer."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Final, NamedTuple

from groundbox.check.python.flow import keyword_of
from groundbox.check.python.program import MOST_TEXT_CHARS, Program
from groundbox.check.tiers import Finding

CHAINED_HINT: Final = "Assign in one step: df.loc[rows, 'column'] = value."
_ON_A_COPY: Final = frozenset(
    ["fillna", "replace", "drop", "dropna", "sort_values", "clip", "interpolate", "ffill", "bfill", "mask", "where"]
)
_KEEPS: Final = frozenset(
    ["copy", "merge", "reset_index", "sort_values", "dropna", "drop", "rename", "assign", "query", "head"]
)


def chained_assignment(program: Program) -> Iterator[Finding]:
    """An assignment to a selection of a selection, or a method in place on one column: neither changes the frame."""
    frames = frame_names(program)
    for node in program.nodes:
        target = _chained_target(frames, node)
        if target is not None:
            yield Finding(
                code="pandas.chained_assignment",
                evidence={"line": target.lineno},
                message=f"line {target.lineno} changes a copy, and the DataFrame stays as it was: "
                f"{ast.unparse(target)[:80]}",
                hint=CHAINED_HINT,
            )


def _chained_target(frames: frozenset[str], node: ast.AST) -> ast.expr | None:
    if isinstance(node, ast.Assign | ast.AugAssign):
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if isinstance(target, ast.Subscript) and _selects(frames, target.value):
                return target
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute):
        call = node.value
        in_place = keyword_of(call, "inplace")
        method = node.value.func
        if not isinstance(in_place, ast.Constant) or in_place.value is not True:
            return None
        if method.attr in _ON_A_COPY and _selects(frames, method.value):
            return call
    return None


def _selects(frames: frozenset[str], node: ast.expr) -> bool:
    """Tell whether it is `frame[…]` or `frame.loc[…]`, which is a copy."""
    if not isinstance(node, ast.Subscript):
        return False
    owner = node.value
    if isinstance(owner, ast.Attribute) and owner.attr in ("loc", "iloc"):
        owner = owner.value
    return isinstance(owner, ast.Name) and owner.id in frames


def frame_names(program: Program) -> frozenset[str]:
    """Names of which something says that they are DataFrames, found by going once from those that are read or made."""
    named: dict[str, list[str]] = defaultdict(list)
    found: set[str] = set()
    for name in program.flow.names():
        for value in program.flow.assigned(name):
            root = _root(program, value)
            if root is None:
                found.add(name)
            elif root:
                named[root].append(name)
    todo = list(found)
    while todo:
        new = [name for name in named.pop(todo.pop(), ()) if name not in found]
        found.update(new)
        todo += new
    return frozenset(found)


def _root(program: Program, node: ast.AST) -> str | None:
    """The name that an expression takes rows of; None if it is a new DataFrame, an empty text if it is neither."""
    while True:
        if isinstance(node, ast.Call):
            origin = program.flow.origin(node.func)
            if origin in ("pandas.DataFrame", "pandas.Series", "pandas.merge", "pandas.concat") or origin.startswith(
                "pandas.read_"
            ):
                return None
            if not isinstance(node.func, ast.Attribute) or node.func.attr not in _KEEPS:
                return ""
            node = node.func.value
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Compare | ast.BinOp | ast.List):
            node = node.value
        else:
            return node.id if isinstance(node, ast.Name) else ""


_WARNED: Final = re.compile(
    r"^[^\n]{0,300}?:(\d{1,7}): ([A-Za-z]{1,40}(?:Warning|Error)): ([^\n]{0,300})", re.MULTILINE
)
_NOT_A_NUMBER: Final = re.compile(r"(?<![\w.])[-+]?(?:nan|NaN|inf|Infinity)(?![\w])")


class _Kind(NamedTuple):
    """Warnings of one kind: the pattern finds their category and text."""

    pattern: re.Pattern[str]
    code: str
    words: str
    hint: str


_KINDS: Final = (
    _Kind(
        re.compile(r"ChainedAssignmentError|SettingWithCopyWarning|ChainedAssignmentWarning"),
        "pandas.chained_assignment",
        "an assignment changed a copy, and the DataFrame stayed as it was",
        CHAINED_HINT,
    ),
    _Kind(
        re.compile(r"RuntimeWarning.*overflow"),
        "python.overflow",
        "numbers grew beyond their type, and the result is wrong",
        "Use int64, float64 or Python's int.",
    ),
    _Kind(
        re.compile(r"RuntimeWarning.*(?:invalid value|divide by zero|Mean of empty slice|Degrees of freedom|All-NaN)"),
        "python.invalid_value",
        "a computation had no result, and went on with NaN or infinity",
        "Look for zeros, blanks and empty groups, and say what is to happen with them.",
    ),
    _Kind(
        re.compile(r"ConvergenceWarning|OptimizeWarning|IntegrationWarning"),
        "python.not_converged",
        "a numerical method gave up before it had its result",
        "Scale the data, or allow more steps.",
    ),
    _Kind(
        re.compile(r"UndefinedMetricWarning"),
        "python.undefined_metric",
        "a score is not defined for these data and was set to a number",
        "Look at the classes that have no sample.",
    ),
    _Kind(
        re.compile(r"UserWarning.*doesn't allow columns to be created via a new attribute"),
        "pandas.attribute_column",
        "an attribute of a table was set, which makes no column",
        "Write df['column'] = ….",
    ),
    _Kind(
        re.compile(r"DtypeWarning"),
        "pandas.mixed_types",
        "a column of a file holds numbers and texts",
        "Give dtype=… or clean the column.",
    ),
    _Kind(
        re.compile(r"UserWarning.*Could not infer format|UserWarning.*[Pp]arsing dates"),
        "pandas.guessed_dates",
        "dates were read by guessing, and day and month may be exchanged",
        "Give format=…",
    ),
    _Kind(
        re.compile(r"FutureWarning|DeprecationWarning|Pandas\d?Warning"),
        "python.deprecated",
        "something that was used will change or go",
        "Use what the message names.",
    ),
    _Kind(
        re.compile(r"SyntaxWarning.*\"is(?: not)?\" with"),
        "python.is_literal",
        "two values are asked to be one object",
        "Use == and !=.",
    ),
)


def warnings_printed(program: Program) -> Iterator[Finding]:
    """Warnings that libraries printed, each kind once."""
    stderr = program.execution.stderr
    found: set[str] = set()
    for match in _WARNED.finditer(stderr[:MOST_TEXT_CHARS]):
        line, category, message = int(match[1]), match[2], match[3]
        kind = next((kind for kind in _KINDS if kind.pattern.search(f"{category} {message}")), None)
        if kind is None or kind.code in found:
            continue
        found.add(kind.code)
        own = line <= program.source.count("\n") + 1
        yield Finding(
            code=kind.code,
            evidence={"line": line} if own else {},
            message=f"{kind.words}: {category}: {message[:160]}",
            hint=kind.hint,
        )


def not_a_number(program: Program) -> Iterator[Finding]:
    """NaN or infinity as the value or in the last line that was printed."""
    value = program.execution.text
    data = program.execution.value or {}
    if value is not None and "application/vnd.dataresource+json" in data:
        return
    printed = program.execution.stdout[-4000:].rstrip().rpartition("\n")[2]
    for where, text in (("the value", value or ""), ("the last line printed", printed)):
        seen = _NOT_A_NUMBER.search(text[:4000])
        meant = seen is not None and "inf" in seen[0].lower() and "inf" in program.source  # a sentinel of the program's
        if seen is not None and not meant and "\n" not in text.strip():
            yield Finding(
                code="python.not_a_number",
                message=f"{where} holds {seen[0]}: {text.strip()[:80]}",
                hint="Look at what it was computed from: an empty selection, a blank, or a division by zero.",
            )
            return


RULES: Final = (chained_assignment, warnings_printed, not_a_number)
