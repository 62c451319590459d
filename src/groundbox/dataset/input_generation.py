"""Inputs for problems that have none: from their generator, or from examples, defaults and annotations, and by changing
what showed something.

Theory of operation. Candidates are run one after another; one is kept if its run goes from a line to a line
that no kept one went, or gives an answer that no kept one gave. Kept ones are changed a little to make
further candidates. All choices come from one seed, so the same problem gets the same inputs. A generator is foreign
code, and is asked in a sandbox, twice: what it does not give again from the same seeds is no use to a build that is to
be repeated. Its inputs are not changed, as only it knows which fit the program. Inputs whose runs are too long to be
used come last. Where a dataset is to be the same when it is built again, one whose run draws on chance, or gives
another answer the second time, is no candidate: what it shows would decide which others are kept.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import doctest
import random
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Final

from groundbox.dataset import signature
from groundbox.dataset.item_runs import PLAIN_SEED, TRACED_SEED, RunLimits, Runs, arcs_of, drawing
from groundbox.dataset.problem import Case, Drop, Problem
from groundbox.dataset.problems import asserts
from groundbox.dataset.program_runner import Runner, RunResult, same
from groundbox.values import codec, literals
from groundbox.values.parsing import expression_of

STAGE: Final = "inputs"
_TRIES_EACH: Final = 6
_LONG_EACH: Final = 2
"""Inputs whose runs are too long, for each that is wanted, after which no other is tried."""
_UNSETTLED: Final = 4
"""Inputs whose runs are not the same each time, after which, while none is kept, no other is tried."""
_MOST_RECORDS: Final = 50_000
"""Of the traces of a problem that are kept until its inputs are all made."""
_FIRST: Final = 12
"""Candidates that are made before any was run."""
# What parameters without an annotation are called where they hold such a value.
_NAMES: Final = {
    int: ("n", "k", "m", "num", "number", "count", "size", "x", "y", "a", "b", "i", "limit", "target", "index", "year"),
    str: ("s", "t", "text", "word", "string", "name", "line", "sentence", "pattern", "phrase", "message", "char"),
    list: ("arr", "nums", "numbers", "array", "items", "values", "data", "seq", "sequence", "xs", "lst", "l"),
    dict: ("d", "mapping", "table", "counts", "graph"),
    float: ("price", "rate", "ratio", "weight", "height", "amount"),
}
_SEEDS_TRIED: Final = 4
_GENERATE: Final = "groundbox_inputs"
_SEEDED: Final = """{source}

from random import Random
{generator}

def groundbox_inputs(*seeds):
    return [generate_inputs(Random(seed)) for seed in seeds]
"""
_WORDS: Final = ("", "a", "abba", "hello world", "Groundbox 42", "racecar", "x=1;y=2", "The quick brown fox")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Made:
    """An input that was made.

    Attributes:
        ran: A run that shows what it is good for, as the stage `run` makes it, traced; None where it would take much
            memory.
        plain: The run that the stage `run` makes first, where it was made to see what the program draws.
    """

    case: Case
    ran: RunResult | None
    plain: RunResult | None


async def make(
    problem: Problem,
    runner: Runner,
    *,
    most: int,
    seed: int,
    limits: RunLimits,
    most_steps: int,
    longer: bool = True,
) -> tuple[list[Made], list[Drop]]:
    """Up to `most` inputs that show different things, and a drop when there is none.

    Args:
        limits: Of a run; where it is `stable_only`, only inputs are kept whose runs show the same whenever they are
            made.
        most_steps: Recorded lines of a run that is not too long.
        longer: Whether those of longer runs make up what is missing, as they do in any case where there are no others.

    Raises:
        SandboxLost: A run was lost each time that it was tried.
    """
    rng = random.Random(f"{seed}/{problem.id}/inputs")
    kept: list[Made] = []
    long: list[Made] = []
    room = _MOST_RECORDS
    seen: set[str] = set()
    shown: set[Any] = set()
    unsettled: list[Drop] = []
    if problem.generator is None:
        unknown = f"nothing is known of the parameters of {problem.entry}"
        proposed = _guessed(problem, rng, kept, _TRIES_EACH * most)
    else:
        generated = _Generator(problem, problem.generator, runner, limits.cpu_s)
        if fault := await generated.fault([rng.getrandbits(32) for _ in range(_SEEDS_TRIED)]):
            return [], [problem.dropped(STAGE, "no-inputs", fault)]
        unknown = "its generator gives no arguments that are data"
        proposed = generated.proposed(rng, most, _TRIES_EACH)
    async for case in proposed:
        # Seen without a run: a call that cannot be bound would only give a TypeError.
        if case.key() in seen or signature.misfit(problem, case):
            continue
        seen.add(case.key())
        # The plain run comes first where it is asked what the program draws: a program that draws is not traced.
        runs = Runs(problem, case, runner, limits)
        plain = await runs(PLAIN_SEED, traced=False) if limits.stable_only else None
        ran = None if plain is not None and plain.drawn else await runs(TRACED_SEED, traced=True)
        if plain is not None and (ran is None or _differ(plain, ran)):
            differs = ("nondeterministic-output", "its runs give different answers")
            unsettled.append(problem.dropped(STAGE, *(drawing(plain) if plain.drawn else differs)))
            if len(unsettled) == _UNSETTLED and not kept:
                break
            continue
        assert ran is not None
        # An input that shows nothing new would be one more sample of the same path.
        news = _shown(case, ran)
        if not news - shown:
            continue
        if ran.trace is not None and ran.trace.counts.get("line", 0) > most_steps:
            long.append(Made(case=case, ran=None, plain=plain))
        else:
            shown |= news
            # The traced run is handed on to the stage `run`, which then need not make it again; bounded, since a trace
            # takes memory.
            room -= 0 if ran.trace is None else len(ran.trace)
            kept.append(Made(case=case, ran=ran if room >= 0 else None, plain=plain))
        # A program all of whose runs are long would be tried to the last candidate for nothing.
        if len(kept) == most or len(long) == _LONG_EACH * most:
            break
    if longer or not kept:
        kept += long[: most - len(kept)]
    if kept:
        numbered = enumerate(kept)
        return [dataclasses.replace(m, case=dataclasses.replace(m.case, number=n)) for n, m in numbered], []
    if unsettled:
        return [], unsettled[:1]
    detail = f"{len(seen)} inputs were tried" if seen else unknown
    return [], [problem.dropped(STAGE, "no-inputs", detail)]


async def _guessed(problem: Problem, rng: random.Random, kept: Sequence[Made], tries: int) -> AsyncIterator[Case]:
    """Inputs by what is known of a problem, then changed ones of those that are kept meanwhile."""
    waiting = list(_candidates(problem, rng))
    for _ in range(tries):
        if not waiting and not kept:
            return
        # `kept` grows while this generator waits: candidates are changed from what the caller kept meanwhile.
        yield waiting.pop(0) if waiting else mutated(rng.choice(kept).case, rng)


class _Generator:
    """The function of a problem that makes inputs."""

    def __init__(self, problem: Problem, generator: str, runner: Runner, cpu_s: float) -> None:
        source = _SEEDED.format(source=problem.source, generator=generator)
        self._problem = dataclasses.replace(problem, source=source, entry=_GENERATE)
        self._runner, self._limits = runner, RunLimits(cpu_s=cpu_s)

    async def fault(self, seeds: Sequence[int]) -> str:
        """Why it cannot be used, or ""; judged by the first of the seeds with which it does not raise."""
        why = ""
        # A generator may raise for some seeds (an empty range, say) and be of use for all others.
        for seed in seeds:
            first = (await self._run([seed], 0)).answer
            if first.fault is None:
                # Under another hash seed: a generator that goes through a set gives other inputs from the same seed.
                again = (await self._run([seed], 1)).answer
                return "" if same(first, again) else "its generator gives other inputs from the same seed"
            why = f"its generator raises {first.fault.type}"
        return why

    async def proposed(self, rng: random.Random, count: int, times: int) -> AsyncIterator[Case]:
        """Inputs of `times` rows of `count` seeds: those that are arguments by name, all of them data."""
        for _ in range(times):
            for given in await self._inputs([rng.getrandbits(32) for _ in range(count)]):
                if isinstance(given, dict) and all(isinstance(name, str) for name in given):
                    yield Case(number=0, kwargs=given, origin="generated")

    async def _inputs(self, seeds: Sequence[int]) -> list[Any]:
        """Return an input for each seed, by one run, or by a run each where one failed; None for a failure."""
        ran = await self._run(seeds, 0)
        if ran.outcome == "ok":
            with contextlib.suppress(codec.NotData):
                given = codec.decode(ran.answer.value, literals=True)
                return given if isinstance(given, list) else []
        if len(seeds) == 1:
            return [None]
        return [given for seed in seeds for given in await self._inputs([seed])]

    async def _run(self, seeds: Sequence[int], hash_seed: int) -> RunResult:
        case = Case(number=0, args=tuple(seeds))
        return await Runs(self._problem, case, self._runner, self._limits)(hash_seed, traced=False)


def mutated(case: Case, rng: random.Random) -> Case:
    """The case with one argument changed."""
    args, kwargs = list(case.args), dict(case.kwargs)
    places: list[Any] = [*range(len(args)), *kwargs]
    if not places:
        return case
    place = rng.choice(places)
    if isinstance(place, int):
        args[place] = _changed(args[place], rng)
    else:
        kwargs[place] = _changed(kwargs[place], rng)
    return Case(number=0, args=tuple(args), kwargs=kwargs, origin="mutation")


def _differ(one: RunResult, other: RunResult) -> bool:
    """Tell whether two runs that ended by themselves gave different answers."""
    ended = {one.outcome, other.outcome} <= {"ok", "error"}
    return ended and not same(one.answer, other.answer)


def _shown(case: Case, ran: RunResult) -> set[Any]:
    """Return what a run shows: steps from line to line, and its answer. Nothing, if it is of no use."""
    fault = ran.answer.fault
    if ran.trace is None or ran.outcome not in ("ok", "error"):
        return set()
    # A generator's own inputs are kept though they run long: only it knows which are right, and they can be shrunk
    # later.
    if not ran.trace.complete and case.origin != "generated":  # of these a smaller one may be found
        return set()
    if fault is not None:
        # TypeError and AttributeError say that the input was of the wrong kind, not what the program does.
        return {("raises", fault.type, fault.line)} if fault.type not in ("TypeError", "AttributeError") else set()
    return {("gives", repr(ran.answer.value), ran.answer.stdout), *arcs_of(ran.trace)}


def _candidates(problem: Problem, rng: random.Random) -> Iterator[Case]:
    """Yield what is known of a problem without running it: examples first."""
    node = signature.entry_of(problem)
    if node is None:
        return
    yield from _examples(node)
    parameters = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    if not parameters:
        yield Case(number=0, origin="default")
        return
    defaults = _defaults(node)
    if len(defaults) == len(parameters):
        yield Case(number=0, kwargs=defaults, origin="default")
    # Values below go by name.
    if node.args.posonlyargs:
        return
    for _ in range(_FIRST):
        values = {each.arg: _value(each, defaults, rng) for each in parameters}
        yield Case(number=0, kwargs=values, origin="annotation")


def _examples(node: ast.FunctionDef) -> Iterator[Case]:
    try:
        examples = doctest.DocTestParser().get_examples(ast.get_docstring(node) or "")
    except ValueError:
        return
    for example in examples:
        try:
            call = expression_of(example.source.strip())
        except (SyntaxError, ValueError, RecursionError, MemoryError):  # such as `>>> xs = [1, 2]` before others
            continue
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == node.name:
            try:
                args, kwargs = asserts.arguments(call)
            except literals.NotALiteral:
                continue
            yield Case(number=0, args=args, kwargs=kwargs, origin="example")


def _defaults(node: ast.FunctionDef) -> dict[str, Any]:
    """The defaults that are literals."""
    found: dict[str, Any] = {}
    for name, default in signature.defaults_of(node).items():
        with contextlib.suppress(literals.NotALiteral):
            found[name] = literals.of_node(default)
    return found


def _value(parameter: ast.arg, defaults: dict[str, Any], rng: random.Random) -> Any:
    if parameter.annotation is not None:
        return _of_annotation(parameter.annotation, rng)
    if parameter.arg in defaults and defaults[parameter.arg] is not None:
        return rng.choice([defaults[parameter.arg], _changed(defaults[parameter.arg], rng)])
    kind = next((kind for kind, names in _NAMES.items() if parameter.arg.lower() in names), None)
    return _of_kind(kind or rng.choice([int, str, list]), rng)


def of_annotation(annotation: str, rng: random.Random) -> Any:
    """A value of an annotation's type, as far as literals have it; None for an annotation that does not parse."""
    try:
        return _of_annotation(expression_of(annotation), rng)
    except SyntaxError:
        return None


def _of_annotation(node: ast.expr, rng: random.Random) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return of_annotation(node.value, rng)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _of_annotation(rng.choice([node.left, node.right]), rng)
    name, inner = _named(node)
    if name in ("optional", "union") and inner:
        return None if name == "optional" and rng.random() < 0.2 else _of_annotation(rng.choice(inner), rng)
    if name in ("list", "sequence", "iterable", "collection", "set", "frozenset"):
        items = [_of_annotation(inner[0], rng) if inner else rng.randint(-9, 20) for _ in range(rng.randint(0, 7))]
        return items if name not in ("set", "frozenset") else set(map(_hashable, items))
    if name == "tuple":
        return tuple(_of_annotation(each, rng) for each in inner if not _is_dots(each))
    if name in ("dict", "mapping", "defaultdict"):
        key, value = inner if len(inner) == 2 else (ast.Name("str"), ast.Name("int"))
        return {_hashable(_of_annotation(key, rng)): _of_annotation(value, rng) for _ in range(rng.randint(0, 5))}
    kinds: dict[str, Any] = {"int": int, "str": str, "float": float, "bool": bool, "bytes": bytes}
    return _of_kind(kinds.get(name, int), rng)


def _named(node: ast.expr) -> tuple[str, Sequence[ast.expr]]:
    if isinstance(node, ast.Subscript):
        inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return _named(node.value)[0], list(inner)
    if isinstance(node, ast.Attribute):
        return node.attr.lower(), []
    return (node.id.lower() if isinstance(node, ast.Name) else ""), []


def _of_kind(kind: Any, rng: random.Random) -> Any:
    if kind is bool:
        return rng.random() < 0.5
    if kind is float:
        # Two digits, so that sums stay readable in a telling.
        return round(rng.uniform(-10, 100), 2)
    if kind is str:
        return rng.choice(_WORDS)
    if kind is bytes:
        return rng.choice(_WORDS).encode()
    if kind is list:
        return [rng.randint(-9, 20) for _ in range(rng.randint(0, 8))]
    if kind is dict:
        return {rng.choice("abcdef"): rng.randint(-9, 20) for _ in range(rng.randint(0, 5))}
    return rng.choice([rng.randint(0, 5), rng.randint(0, 30), rng.randint(-10, 200)])


def _changed(value: Any, rng: random.Random) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return rng.choice([value + 1, value - 1, value * 2, -value, value // 2, 0])
    if isinstance(value, float):
        return rng.choice([value + 1.0, -value, value / 2, round(value), 0.0])
    if isinstance(value, str):
        return rng.choice([value[:-1], value + rng.choice("abz 1A"), value[::-1], value.upper(), value + value[:3]])
    if isinstance(value, list | tuple):
        return type(value)(_changed_items(list(value), rng))
    if isinstance(value, dict) and value:
        key = rng.choice(list(value))
        return {**value, key: _changed(value[key], rng)}
    return value


def _changed_items(items: list[Any], rng: random.Random) -> list[Any]:
    if not items:
        return [rng.randint(0, 9)]
    at = rng.randrange(len(items))
    how = rng.randrange(4)
    if how == 0:
        return items[:at] + items[at + 1 :]
    if how == 1:
        return [*items[: at + 1], *items[at:]]
    if how == 2:
        return items[::-1]
    return [*items[:at], _changed(items[at], rng), *items[at + 1 :]]


def _hashable(value: Any) -> Any:
    return literals.text(value) if isinstance(value, list | set | dict) else value


def _is_dots(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...
