"""Rules on what reaches the output: failures that are hidden, answers that do not come from the data, chance."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from groundbox.check.python.flow import Sink
from groundbox.check.python.program import Program, is_opaque, is_source
from groundbox.check.tiers import Finding

_BROAD: Final = ("Exception", "BaseException")
_MOST_SINKS: Final = 200
_DRAWING_NAMES: Final = """
    random randint randrange uniform choice choices sample shuffle gauss normal standard_normal rand randn integers
    permutation normalvariate triangular betavariate expovariate lognormal poisson binomial exponential bytes permuted
"""
_DRAWING: Final = frozenset(_DRAWING_NAMES.split())
_SEEDED_BY_KEYWORD: Final = ("random_state", "seed")
_MODEL_NAMES: Final = """
    train_test_split KMeans MiniBatchKMeans RandomForestClassifier RandomForestRegressor ExtraTreesClassifier
    ExtraTreesRegressor MLPClassifier MLPRegressor TSNE
"""
_MODELS: Final = frozenset(_MODEL_NAMES.split())


def swallowed_exceptions(program: Program) -> Iterator[Finding]:
    """A handler that says nothing, where what it leaves out or puts in reaches the output."""
    for node in program.nodes:
        if not isinstance(node, ast.Try):
            continue
        for handler in node.handlers:
            effect = _hidden_effect(program, node, handler)
            if effect is None:
                continue
            names = _caught(handler)
            broad = handler.type is None or any(name in _BROAD for name in names)
            caught = "every exception" if broad else " and ".join(names)
            yield Finding(
                code="python.swallowed_exception" if broad else "python.skipped_exception",
                evidence={"line": handler.lineno, **({"names": names} if names else {})},
                message=f"line {handler.lineno} hides {caught}, and {effect}",
                hint="Let it fail, or count and print what was left out, so that the answer shows it.",
            )


def constant_answer(program: Program) -> Iterator[Finding]:
    """Data is read, and nothing that is shown depends on it."""
    flow = program.flow
    loaded = [node for node in program.nodes if isinstance(node, ast.expr) and is_source(node, flow)]
    if not loaded or not flow.sinks or len(flow.sinks) > _MOST_SINKS:
        return
    constant = [sink for sink in flow.sinks if _is_constant(program, sink)]
    numbers = [sink for sink in constant if _shows_number(program, sink)]
    last = flow.sinks[-1]
    if not numbers or (len(constant) < len(flow.sinks) and not (last in numbers and _is_bare(program, last))):
        return
    sink = numbers[-1]
    every = len(constant) == len(flow.sinks)
    yield Finding(
        code="python.constant_answer",
        evidence={"line": sink.node.lineno},
        message=f"data is read on line {loaded[0].lineno}, but "
        + ("nothing that is shown" if every else f"the last number shown, on line {sink.node.lineno}, does not")
        + (" depends on it" if every else " depend on it"),
        hint="Compute the answer from the data instead of writing it into the program.",
    )


def unseeded_randomness(program: Program) -> Iterator[Finding]:
    """Chance without a seed reaches the output."""
    if any(_is_seed(call, origin) for call, origin in program.calls()):
        return
    for call, origin in program.calls():
        if id(call) in program.outgoing and (drawn := _draws(program, call, origin)):
            yield Finding(
                code="python.unseeded_random",
                evidence={"line": call.lineno, "names": [drawn]},
                message=f"{drawn} on line {call.lineno} draws other numbers each time, and the output depends on them",
                hint="Set a seed (random.seed(0), numpy.random.default_rng(0), random_state=0) if the answer "
                "should be the same again.",
            )
            return


def _hidden_effect(program: Program, attempt: ast.Try, handler: ast.ExceptHandler) -> str | None:
    if not _can_fail_on_data(program, attempt) or _tells(program, handler):
        return None
    for statement in handler.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and isinstance(statement.value, ast.Constant):
            if id(statement.value) in program.outgoing:
                return f"puts {ast.unparse(statement.value)[:40]} in its place, which reaches the output"
        elif isinstance(statement, ast.Return):
            value = statement.value
            if _is_fallback(value) and id(value) in program.outgoing:
                return f"returns {ast.unparse(statement)[7:47]} instead, which reaches the output"
    if all(isinstance(statement, ast.Pass | ast.Continue) for statement in handler.body):
        for statement in attempt.body:
            for part in program.steps.walk(statement):
                if isinstance(part, ast.AugAssign) and id(part.value) in program.outgoing:
                    return "what it leaves out is missing in a sum that is shown"
                if _collects(part) and id(part) in program.outgoing:
                    return "what it leaves out is missing in what is shown"
                if isinstance(part, ast.Assign) and id(part.value) in program.outgoing:
                    return "the value from before stays, and reaches the output"
    return None


def _is_fallback(value: ast.expr | None) -> bool:
    """Tell whether it stands for missing data: no None, which says so, and no truth value, which is an answer."""
    return isinstance(value, ast.Constant) and value.value is not None and not isinstance(value.value, bool)


def _collects(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("append", "add", "extend", "update", "insert")
    )


def _can_fail_on_data(program: Program, attempt: ast.Try) -> bool:
    """Tell whether the body computes; an import that may be missing is no data."""
    if any(isinstance(statement, ast.Import | ast.ImportFrom) for statement in attempt.body):
        return False
    parts = (part for statement in attempt.body for part in program.steps.walk(statement))
    return any(isinstance(part, ast.Call | ast.BinOp) for part in parts)


def _tells(program: Program, handler: ast.ExceptHandler) -> bool:
    """Tell whether it raises, prints, logs, counts, or looks at the exception."""
    for statement in handler.body:
        for part in program.steps.walk(statement):
            if isinstance(part, ast.Raise | ast.Call | ast.AugAssign):
                return True
            if isinstance(part, ast.Name) and handler.name is not None and part.id == handler.name:
                return True
    return False


def _caught(handler: ast.ExceptHandler) -> list[str]:
    if handler.type is None:
        return []
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return [ast.unparse(kind)[:60] for kind in types]


def _is_constant(program: Program, sink: Sink) -> bool:
    return not any(
        is_source(node, program.flow) or (node is not sink.node and is_opaque(node, program.flow))
        for node in program.flow.reaching((*sink.shown, *sink.conditions))
    )


def _shows_number(program: Program, sink: Sink) -> bool:
    for node in program.flow.reaching(sink.shown):
        if isinstance(node, ast.Constant):
            if isinstance(node.value, int | float) and not isinstance(node.value, bool):
                return True
            if isinstance(node.value, str) and any(character.isdigit() for character in node.value):
                return True
    return False


def _is_bare(program: Program, sink: Sink) -> bool:
    """Tell whether it shows just a number, or a name for one that nothing else uses, perhaps after words."""
    shown = [
        part.value if isinstance(part, ast.FormattedValue) else part
        for node in sink.shown
        for part in (node.values if isinstance(node, ast.JoinedStr) else [node])
    ]
    numbers = [node for node in shown if not (isinstance(node, ast.Constant) and isinstance(node.value, str))]
    if len(numbers) != 1 or not isinstance(numbers[0], ast.Name | ast.Constant):
        return False
    name = numbers[0].id if isinstance(numbers[0], ast.Name) else None
    names = [node for node in program.nodes if isinstance(node, ast.Name) and node.id == name]
    return sum(isinstance(node.ctx, ast.Load) for node in names) < 2


def _is_seed(call: ast.Call, origin: str) -> bool:
    last = origin.rpartition(".")[2]
    if last in ("seed", "manual_seed", "set_seed"):
        return True
    if last in ("Random", "default_rng", "RandomState", "Generator", "PCG64"):
        return bool(call.args or call.keywords)
    return any(keyword.arg in _SEEDED_BY_KEYWORD for keyword in call.keywords)


def _draws(program: Program, call: ast.Call, origin: str) -> str:
    module, _, last = origin.rpartition(".")
    if last in _MODELS and last in program.flow.modules:
        return last
    if last not in _DRAWING and not (last == "sample" and call.keywords):
        return ""
    if module in ("random", "numpy.random"):
        return origin
    if any(
        isinstance(value, ast.Call) and program.flow.origin(value.func) in ("numpy.random.default_rng", "random.Random")
        for value in program.flow.assigned(module)
    ):
        return origin
    frames = any(name.startswith("pandas") for name in program.flow.modules.values())
    return f"{module}.sample" if last == "sample" and frames and module else ""


RULES: Final = (swallowed_exceptions, constant_answer, unseeded_randomness)
