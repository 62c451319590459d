"""Smaller inputs of a program whose run on a given one is too long to be told whole.

Theory of operation. This is delta debugging with another goal than a failure: a run that can be told without passing
anything over. From the given input on, parts are halved: all at once first, then one by one, the heaviest first. Of
each smaller input a traced run is made. It is taken in place of the larger one where it is shorter, ends the same way
(returns, or raises the same type), and still takes every step from line to line that the larger one took; where no
input does, the one that keeps most. Arguments of the problem's other inputs are tried in the place of larger ones.
Once a run can be told whole, inputs of its size are drawn from the first one to regain steps that were lost.

Types and shape stay: lists stay lists of such items, records keep their keys, pairs stay pairs, tables stay tables,
text that holds JSON still does, and a number that says how long a list is goes with the list.

All choices come from one seed, and runs are counted and not timed, so the same program gets the same inputs.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import random
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Final

from groundbox.dataset import signature
from groundbox.dataset.item import Answer
from groundbox.dataset.item_runs import Arcs, arcs_of, length_of
from groundbox.dataset.problem import Case, Problem, Shrunk
from groundbox.dataset.program_runner import RunResult
from groundbox.trace.record.reading import Trace
from groundbox.values.literals import text

ORIGIN: Final = "shrunk"
_EACH_ROUND: Final = 8
"""Runs after which the best of a round is taken, if none kept every step."""
_TO_REGAIN: Final = 12
"""Runs that are made for steps that were lost, or for an input that is not there yet, once one can be told."""
_MOST_DRAWN: Final = 60
"""Inputs that are drawn for these runs; most of few possible ones were tried before."""
_TO_BEGIN: Final = 8
"""Runs after which one has to be shorter by a tenth than the first; else most of it does not depend on the input."""
_RUNS_FOR_STOPPED: Final = 12
"""Runs that a search may make for each that ends at a limit, which takes as long as many others."""
_MOST_PARTS: Final = 400
_MOST_DEPTH: Final = 8
_MUCH: Final = 0.9
"""Share of a run's length that a shorter one has at most, if it is to be much shorter."""
_MOST_ENDS: Final = 3
"""Numbers among the arguments of which each two may be the ends of a range."""
_LARGE: Final = 500
"""Numbers above it are divided by ten at first, others by two."""
_NESTED: Final = 4
"""Shorter lists inside others stay as they are: they are pairs and triples more often than rows."""

Path = tuple[Any, ...]


_JSON: Final = object()
"""A step of a path into the JSON that a text holds."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measure:
    """A run that is the measure of smaller ones.

    Attributes:
        fault: Type of the exception that it ended with, or "".
        arcs: Steps from line to line that it took, as far as they were recorded; none where there is no trace.
        length: Lines that ran; endless where that is not known.
    """

    fault: str
    arcs: Arcs
    length: float

    @classmethod
    def of(cls, answer: Answer | None, trace: Trace | None) -> Measure:
        """The measure that a run gives; of one without a trace little is known."""
        fault = answer.fault.type if answer is not None and answer.fault is not None else ""
        if trace is None:
            return cls(fault=fault, arcs=frozenset(), length=math.inf)
        return cls(fault=fault, arcs=arcs_of(trace), length=length_of(trace))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Trial:
    """A smaller input that ran.

    Attributes:
        kept: How many of the first run's steps from line to line it takes, too.
        untold: Why its run cannot be told whole, or "".
    """

    case: Case
    root: Any
    kept: int
    length: int
    untold: str


@dataclasses.dataclass(kw_only=True)
class Search:
    """Looks for smaller inputs of one item.

    Attributes:
        measure: The run that is too long.
        others: Other inputs of the problem.
        taken: Keys of inputs that are not to be found again.
        run: Makes a traced run.
        untold: Says why a run cannot be told whole, "" if it can.
        most_runs: Bound of the search.
        runs: How many were made, updated in place.
        collided: Whether an input that can be told was passed over because it is taken.
    """

    problem: Problem
    case: Case
    measure: Measure
    others: Sequence[Case]
    taken: Collection[str]
    run: Callable[[Case], Awaitable[RunResult | None]]
    untold: Callable[[Trace], Awaitable[str]]
    most_runs: int
    seed: int
    runs: int = 0
    collided: bool = False
    _stopped: int = 0
    _begun: bool = False
    _tried: set[str] = dataclasses.field(default_factory=set)
    _found: list[Trial] = dataclasses.field(default_factory=list)

    async def found(self) -> list[Case]:
        """Smaller inputs whose runs can be told whole, the one that keeps most of the first run's steps first."""
        rng = random.Random(f"{self.seed}/{self.problem.id}/{self.case.number}/smaller")
        self._tried.add(self.case.key())
        root = root_of(self.case)
        # First down to a size that can be told, then sideways for steps that were lost: a small run costs less than a
        # large one.
        reached = await self._descend(root)
        if reached is not None and not self._is_enough():
            await self._regain(root, reached.root, rng)
        ranked = sorted(self._found, key=lambda each: (-each.kept, -each.length))
        return [self._signed(each) for each in ranked]

    async def _descend(self, root: Any) -> Trial | None:
        """Smaller and smaller inputs until one can be told, or nothing gets smaller; the last one."""
        current: Trial | None = None
        while not self._is_over() and not (current is not None and not current.untold):
            given = root if current is None else current.root
            # Arguments of other inputs come first, once: they are natural values where halves are not.
            smaller = [*self._exchanged(given), *reductions(given)] if current is None else reductions(given)
            better = await self._better(current, smaller)
            if better is None:
                break
            current = better
        return current

    async def _better(self, current: Trial | None, smaller: Iterable[Any]) -> Trial | None:
        length = self.measure.length if current is None else current.length
        kept = len(self.measure.arcs) if current is None else current.kept
        shorter: list[Trial] = []
        begun = self.runs
        for root in smaller:
            if self._is_over() or (shorter and self.runs - begun >= _EACH_ROUND):
                break
            trial = await self._try(root)
            if trial is None or trial.length >= length:
                continue
            # Nothing was lost, and it is clearly shorter: taken at once, greedily, as ddmin does.
            if trial.kept >= kept and (trial.length <= _MUCH * length or not trial.untold):
                return trial
            shorter.append(trial)
        # By little steps nothing would be reached; what can be told ends the search, and the rest is by steps kept.
        much_shorter = [each for each in shorter if each.length <= _MUCH * length]
        return max(much_shorter or shorter, key=lambda each: (not each.untold, each.kept, -each.length), default=None)

    async def _regain(self, root: Any, reached: Any, rng: random.Random) -> None:
        """Inputs as large as the one that was reached, of other parts of the first one."""
        least = self.runs + _TO_REGAIN
        for drawn in itertools.islice(drawings(root, reached, rng), _MOST_DRAWN):
            if self._is_over() or self.runs >= least or self._is_enough():
                return
            await self._try(drawn)

    def _exchanged(self, root: Any) -> Iterator[Any]:
        """The input with one argument of another input of the problem in the place of its own, lighter ones first."""
        found: list[tuple[int, str, Any]] = []
        for other in map(root_of, self.others):
            for path, mine in _arguments(root):
                theirs = _at(other, path)
                if type(theirs) is type(mine) and weight(theirs) < weight(mine):
                    changed = _with(root, path, theirs)
                    found.append((weight(changed), text(changed), changed))
        found.sort(key=lambda each: each[:2])
        yield from (each[2] for each in found[: _EACH_ROUND // 2])

    async def _try(self, root: Any) -> Trial | None:
        case = case_of(root, self.case)
        key = case.key()
        # Not counted as runs: none is made.
        if key in self._tried or signature.misfit(self.problem, case) or weight(root) > weight(root_of(self.case)):
            return None
        self._tried.add(key)
        self.runs += 1
        ran = await self.run(case)
        if ran is None:
            return None
        fault = ran.answer.fault
        if ran.outcome not in ("ok", "error"):
            # A run that ends at a limit has taken as long as a dozen others.
            self._stopped += 1
            return None
        trace = ran.trace
        # A smaller input that fails otherwise, or fails where the first did not, is about something else.
        if trace is None or not trace.complete or (fault.type if fault else "") != self.measure.fault:
            return None
        untold = await self.untold(trace)
        kept = len(self.measure.arcs & arcs_of(trace))
        trial = Trial(case=case, root=root, kept=kept, length=length_of(trace), untold=untold)
        self._begun |= trial.length <= _MUCH * self.measure.length
        if not untold:
            # Found, but another item of this problem has it; two items with one input would be one sample twice.
            if key in self.taken:
                self.collided = True
            else:
                self._found.append(trial)
        return trial

    def _is_over(self) -> bool:
        hopeless = self.runs >= _TO_BEGIN and not self._begun
        return hopeless or self.runs >= self.most_runs or self._stopped * _RUNS_FOR_STOPPED >= self.most_runs

    def _is_enough(self) -> bool:
        return any(each.kept == len(self.measure.arcs) for each in self._found)

    def _signed(self, trial: Trial) -> Case:
        shrunk = Shrunk(
            sha256=self.case.key(), origin=self.case.origin, arcs=len(self.measure.arcs), arcs_kept=trial.kept
        )
        return dataclasses.replace(trial.case, shrunk_from=shrunk)


def root_of(case: Case) -> Any:
    """All that a case gives to its program, as one value."""
    return {"args": list(case.args), "kwargs": dict(case.kwargs), "stdin": case.stdin}


def case_of(root: Any, model: Case) -> Case:
    """The case that a value of `root_of` stands for, in the place of `model`; no output of it was ever recorded."""
    return Case(
        number=model.number, args=tuple(root["args"]), kwargs=root["kwargs"], stdin=root["stdin"], origin=ORIGIN
    )


def weight(value: Any) -> int:
    """How much there is of a value: its leaves, characters, and digits of numbers."""
    if isinstance(value, str | bytes):
        return 1 + len(value)
    if isinstance(value, list | tuple | set | frozenset):
        return 1 + sum(map(weight, value))
    if isinstance(value, dict):
        return 1 + sum(weight(key) + weight(each) for key, each in value.items())
    if isinstance(value, int) and not isinstance(value, bool):
        return 1 + abs(value).bit_length()
    if isinstance(value, float) and value == value and abs(value) < 1e18:
        return 1 + int(abs(value)).bit_length()
    return 1


def reductions(root: Any) -> Iterator[Any]:
    """Smaller values of the same shape: everything halved at once, then the parts, the heaviest first."""
    numbers = [path for path, each in _arguments(root) if _is_number(each)]
    shorter, lengths = _halved(root)
    # `f(n, xs)` with n == len(xs): halving the list alone makes an IndexError of most programs.
    linked = _relinked(shorter, lengths)
    yield linked
    if linked != shorter:
        yield shorter
    yield _numbers(root, numbers)
    yield _numbers(linked, numbers)
    yield from _narrowed(root, numbers)
    # The heaviest part first, since most of the run's length comes from it; of equal ones the outer one.
    parts = sorted(_parts(root), key=lambda part: (-weight(part[1]), len(part[0])))
    for path, value in parts[: 2 * _EACH_ROUND]:
        for smaller in _smaller(value, at_top=len(path) == 2):
            changed = _with(root, path, smaller)
            if isinstance(value, list | tuple) and isinstance(smaller, type(value)):
                yield _relinked(changed, {len(value): len(smaller)})
            yield changed
    yield _numbers(root, [path for path, each in _parts(root) if _is_number(each)])


def drawings(root: Any, reached: Any, rng: random.Random) -> Iterator[Any]:
    """Values of about the size of `reached`, with other parts of `root` than it has; without end."""
    pairs = [(path, each, _at(root, path)) for path, each in _arguments(reached)]
    while True:
        drawn = reached
        for path, small, large in pairs:
            if rng.random() < 0.7 or len(pairs) == 1:
                drawn = _with(drawn, path, _drawn(small, large, rng))
        yield drawn


def _drawn(small: Any, large: Any, rng: random.Random) -> Any:
    if isinstance(small, bool) or type(small) is not type(large):
        return rng.choice([small, large])
    if isinstance(small, int):
        return rng.randint(*sorted((small // 2, min(large, 2 * small + 2) if large > small else small)))
    if isinstance(small, str):
        inner, whole = _json_of(small), _json_of(large)
        if inner is not None and whole is not None:
            return json.dumps(_drawn(inner, whole, rng))
        joint = _joint(large)
        return joint.join(_subset(_units(small, joint), _units(large, joint), rng))
    if isinstance(small, list | tuple):
        return type(small)(_subset(list(small), list(large), rng))
    if isinstance(small, dict) and small.keys() != large.keys():
        keys = _subset(list(small), list(large), rng)
        return {key: large[key] for key in large if key in keys}
    if isinstance(small, dict):
        return {key: _drawn(each, large[key], rng) if rng.random() < 0.5 else each for key, each in small.items()}
    return rng.choice([small, large])


def _subset(small: list[Any], large: list[Any], rng: random.Random) -> list[Any]:
    """About as many items as `small` has, out of the larger list and in its order."""
    count = max(1, min(len(large), len(small) + rng.choice([-1, 0, 0, 0, 1])))
    if not large:
        return small
    are_rows = all(map(_is_row, small))
    if len(small) == len(large) and are_rows:
        return [_drawn(one, other, rng) for one, other in zip(small, large, strict=True)]
    drawn = [large[at] for at in sorted(rng.sample(range(len(large)), count))]
    return [row[: len(small[0])] for row in drawn] if small and are_rows and all(map(_is_row, large)) else drawn


def _is_row(value: Any) -> bool:
    return isinstance(value, list) and len(value) >= 1


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _arguments(root: Any) -> list[tuple[Path, Any]]:
    """The arguments themselves and standard input, with where they stand."""
    found: list[tuple[Path, Any]] = [(("args", at), each) for at, each in enumerate(root["args"])]
    found += [(("kwargs", name), each) for name, each in root["kwargs"].items()]
    return found if root["stdin"] is None else [*found, (("stdin",), root["stdin"])]


def _parts(root: Any) -> list[tuple[Path, Any]]:
    """The arguments and all that is in them, what is nested deeply left out."""
    found: list[tuple[Path, Any]] = []
    waiting = _arguments(root)
    while waiting and len(found) < _MOST_PARTS:
        # Breadth first, so that the bound leaves out what is nested deepest.
        path, value = waiting.pop(0)
        found.append((path, value))
        if len(path) > _MOST_DEPTH:
            continue
        if isinstance(value, list | tuple):
            waiting += [((*path, at), each) for at, each in enumerate(value)]
        elif isinstance(value, dict):
            waiting += [((*path, key), each) for key, each in value.items()]
        elif isinstance(value, str) and (inner := _json_of(value)) is not None:
            waiting.append(((*path, _JSON), inner))
    return found


def _at(value: Any, path: Path) -> Any:
    """Return what stands at a place, or None."""
    for step in path:
        if step is _JSON:
            value = _json_of(value) if isinstance(value, str) else None
        elif isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list | tuple) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value


def _with(value: Any, path: Path, new: Any) -> Any:
    """The same value with another one at a place."""
    if not path:
        return new
    step, rest = path[0], path[1:]
    if step is _JSON:
        return json.dumps(_with(_json_of(value), rest, new))
    if isinstance(value, dict):
        return {key: _with(each, rest, new) if key == step else each for key, each in value.items()}
    return type(value)(_with(each, rest, new) if at == step else each for at, each in enumerate(value))


def _halved(root: Any) -> tuple[Any, dict[int, int]]:
    """All containers and texts halved, and which lengths became which."""
    lengths: dict[int, int] = {}

    def half(value: Any, depth: int) -> Any:
        if isinstance(value, list | tuple):
            # Pairs and triples inside a list are points and edges; half of one is nothing.
            keep = len(value) if depth and len(value) < _NESTED else (len(value) + 1) // 2
            lengths.setdefault(len(value), keep)
            return type(value)(half(each, depth + 1) for each in list(value)[:keep])
        if isinstance(value, set | frozenset):
            # Sets have no order of their own; by text, each process takes the same half.
            return type(value)(sorted(value, key=text)[: (len(value) + 1) // 2])
        if isinstance(value, dict):
            items = list(value.items())
            if not _is_record(value) and len(items) > 1:
                items = items[: (len(items) + 1) // 2]
            return {key: half(each, depth + 1) for key, each in items}
        # Texts inside containers are keys and names, which the program may compare with its constants.
        if isinstance(value, str) and not depth:
            inner = _json_of(value)
            if inner is not None:
                return json.dumps(half(inner, depth))
            joint = _joint(value)
            units = _units(value, joint)
            lengths.setdefault(len(value), (len(value) + 1) // 2)
            return joint.join(units[: (len(units) + 1) // 2])
        return value

    for path, value in _arguments(root):
        root = _with(root, path, half(value, 0))
    return root, {old: new for old, new in lengths.items() if old != new}


def _relinked(root: Any, lengths: dict[int, int]) -> Any:
    """The same with arguments that said how long a list was saying how long it is."""
    for path, value in _arguments(root):
        if isinstance(value, int) and not isinstance(value, bool) and value > 1 and value in lengths:
            root = _with(root, path, lengths[value])
    return root


def _numbers(root: Any, paths: Iterable[Path]) -> Any:
    for path in paths:
        root = _with(root, path, _half(_at(root, path)))
    return root


def _narrowed(root: Any, paths: Sequence[Path]) -> Iterator[Any]:
    """Of two numbers that may be the ends of a range, the larger one nearer to the smaller."""
    for low, high in itertools.permutations(paths[:_MOST_ENDS], 2):
        begin, end = _at(root, low), _at(root, high)
        if isinstance(begin, int) and isinstance(end, int) and 1 < end - begin < end:
            yield _with(root, high, begin + _half(end - begin))


def _half(value: Any) -> Any:
    if isinstance(value, float):
        return round(value / 2, 2) if abs(value) > 1 else value
    if isinstance(value, int) and abs(value) > 1:
        by = 10 if abs(value) > _LARGE else 2
        return value // by if value > 0 else -(-value // by)
    return value


def _smaller(value: Any, *, at_top: bool) -> Iterator[Any]:
    """Smaller values in the place of one part."""
    if isinstance(value, bool) or value is None:
        return
    if isinstance(value, int):
        sign, size = (1, value) if value > 0 else (-1, -value)
        yield from (sign * each for each in (size // 10, size // 2, size * 3 // 4, size - 1) if 0 < each < size)
    elif isinstance(value, float):
        if abs(value) > 1:
            yield round(value / 2, 2)
    elif isinstance(value, list | tuple):
        yield from (type(value)(each) for each in _pieces(list(value)))
        if len(value) >= 2 and all(isinstance(each, list) and len(each) == len(value[0]) >= 2 for each in value):
            width = (len(value[0]) + 1) // 2
            yield type(value)(each[:width] for each in value)
            # Programs on grids mostly expect them square.
            square = list(value)[: (len(value) + 1) // 2]
            yield type(value)(each[: len(square)] for each in square)
    elif isinstance(value, set | frozenset):
        yield from (type(value)(each) for each in _pieces(sorted(value, key=text)))
    elif isinstance(value, dict):
        yield from _hoisted(value)
        if not _is_record(value) or at_top:
            yield from (dict(each) for each in _pieces(list(value.items())))
    elif isinstance(value, str) and _json_of(value) is None:
        joint = _joint(value)
        yield from (joint.join(each) for each in _pieces(_units(value, joint)))


def _pieces(items: list[Any]) -> Iterator[list[Any]]:
    """Halves of a list, every other item of it, and all but one quarter."""
    if len(items) < 2:
        return
    middle, quarter = (len(items) + 1) // 2, max(1, len(items) // 4)
    yield items[:middle]
    yield items[len(items) - middle :]
    if len(items) > 3:
        yield items[::2]
    yield items[:-quarter]
    yield items[quarter:]


def _hoisted(value: dict[Any, Any]) -> Iterator[Any]:
    """Values inside this one that have its shape, as branches of a tree have: each could stand in its place."""
    for each in value.values():
        if isinstance(each, dict) and each.keys() == value.keys():
            yield each
        if isinstance(each, dict | list) and each and _has_none(value):
            yield {key: None if kept is each else kept for key, kept in value.items()}


def _has_none(value: Any) -> bool:
    return isinstance(value, dict) and any(each is None or _has_none(each) for each in value.values())


def _is_record(value: dict[Any, Any]) -> bool:
    """Dicts of unlike values are taken for records, whose keys the program names."""
    kinds = {type(each) for each in value.values() if each is not None}
    return len(kinds) > 1 or len(kinds) < len({each is None for each in value.values()})


def _json_of(value: str) -> Any:
    """The list or dict that a text holds as JSON, or None."""
    # `"" in "[{"` is true.
    if value[:1] not in "[{" or not value:
        return None
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, list | dict) else None


def _joint(value: str) -> str:
    """Return what stands between the units of a text: lines, words, items of a list, or nothing between characters."""
    return next((joint for joint in ("\n", " ", ",") if value.count(joint) > 0 and value.strip(joint)), "")


def _units(value: str, joint: str) -> list[str]:
    return value.split(joint) if joint else list(value)
