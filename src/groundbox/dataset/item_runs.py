"""Runs of one item: every input in a fresh sandbox, plain and traced, compared with what the source recorded.

Theory of operation. The plain run under seed B says whether the program runs within its limits at all.
The traced run under seed A gives the trace. If both gave the same, the answer does not depend on the seed, the time,
or the tracer; if not, a plain run under seed A tells which of these it was. The traced run under seed B is compared
with the first trace: a difference (an order of a set that was looped over) does not change the answer, but
it is noted, and by option it drops the item.

With that option (`stable_only`) the runs under seed B have other rests in their memory, so that what was never written
gives another answer or trace; and the plain one tells what the program draws: numbers from chance without a seed of its
own, and the time. That drops the item, too, since two runs that are alike say little where chance seldom matters.
"""

from __future__ import annotations

import dataclasses
import io
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from groundbox.dataset import signature
from groundbox.dataset.item import Answer, Item, Traced
from groundbox.dataset.problem import ABSENT, Case, Problem
from groundbox.dataset.program_runner import UNTOLD, Request, Runner, RunResult, same
from groundbox.errors import SandboxLost, SandboxUnavailable
from groundbox.guest.python import chance
from groundbox.trace.record import schema
from groundbox.trace.record.reading import Trace
from groundbox.values import codec, literals
from groundbox.values.equal import equal_as_json

Arcs: TypeAlias = frozenset[tuple[int, int]]
"""Steps from line to line within a frame; 0 stands for where a frame begins."""

# The first day that a zip archive can name; the time of writing would make other bytes of the same traces.
_NO_DATE: Final = (1980, 1, 1, 0, 0, 0)


def summary(trace: Trace, *, stable: bool) -> Traced:
    """The facts that are kept beside an item."""
    lines = [record.n for record in trace.records if isinstance(record, schema.Line)]
    return Traced(
        sha256=trace.header.sha256,
        records=len(trace.records),
        steps=len(lines),
        folded=trace.folded,
        stable=stable,
        lines=tuple(sorted(set(lines))),
    )


def arcs_of(trace: Trace) -> Arcs:
    """The steps from line to line that a run took, as far as they are recorded."""
    found: set[tuple[int, int]] = set()
    last: dict[int, int] = {}
    for record in trace.records:
        if isinstance(record, schema.Line):
            found.add((last.get(record.f, 0), record.n))
            last[record.f] = record.n
    return frozenset(found)


def length_of(trace: Trace) -> int:
    """How many lines ran, those that were folded, too."""
    return trace.counts.get("line", 0) + sum(getattr(record, "steps", 0) for record in trace.records)


def compressed(trace: Trace) -> bytes:
    """A trace as it is kept in a packed file."""
    return zlib.compress(trace.dumps(), 6)


def packed(traces: Mapping[str, bytes]) -> bytes:
    """Compressed traces by item as one file; the same traces give the same bytes."""
    buffer = io.BytesIO()
    # Stored, because each trace is compressed already.
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for number, (name, data) in enumerate(sorted(traces.items())):
            # The item's name is the comment: as a file name, a zip reader would mend its slashes and odd letters.
            info = zipfile.ZipInfo(f"{number}", _NO_DATE)
            info.comment = name.encode()
            archive.writestr(info, data)
    return buffer.getvalue()


def joined(files: Iterable[bytes]) -> bytes:
    """Return what `packed` makes of the traces of several files that it made."""
    traces: dict[str, bytes] = {}
    for file in files:
        with zipfile.ZipFile(io.BytesIO(file)) as archive:
            traces.update({info.comment.decode(): archive.read(info) for info in archive.infolist()})
    return packed(traces)


def traces_of(file: bytes, names: Iterable[str]) -> Iterator[Trace]:
    """Some traces of a file that `packed` made, by name, one unpacked at a time.

    Raises:
        KeyError: One is not there.
    """
    with zipfile.ZipFile(io.BytesIO(file)) as archive:
        infos = {info.comment.decode(): info for info in archive.infolist()}
        for name in names:
            yield Trace.loads(zlib.decompress(archive.read(infos[name])), own=True)


RUN: Final = "run"
_TRIES: Final = 3
_AGAIN: Final = 2.0
"""Times the limit of processor time, for another run of what has ended within it: a processor that others use, too,
takes more time for the same work, and that is no difference between two runs."""
_NOT_DATA: Final = {
    "RecursionError": "recursion-limit",
    "MemoryError": "memory",
    "ModuleNotFoundError": "missing-module",
}
"""Exceptions that say something about the interpreter and the machine rather than about the program."""
_OTHER_TRACE: Final = "the trace differs under another hash seed and with other rests in memory"
DRAWS: Final = "draws-random-numbers"
READS_CLOCK: Final = "reads-the-clock"
_DRAWN: Final = {
    chance.RANDOM: "draws numbers of `random` without a seed of its own",
    chance.NUMPY: "draws numbers of `numpy.random` without a seed of its own",
    chance.ENTROPY: "asks for the kernel's random numbers, or for a generator without a seed",
    chance.CLOCK: "reads the time",
    UNTOLD: "broke what would have told what it draws",
}


TRACED_SEED: Final = 0
"""Hash seed of the run that is kept."""
PLAIN_SEED: Final = 1
"""Hash seed of the run that it is compared with."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunLimits:
    """Processor seconds of one run.

    Attributes:
        stable_only: Whether an item is dropped whose trace depends on the hash seed or on rests in memory, or whose
            program draws on chance or the clock.
    """

    cpu_s: float = 5.0
    traced_cpu_s: float = 20.0
    stable_only: bool = False

    def brief(self) -> RunLimits:
        """The same with no more time for a traced run than for a plain one, as for inputs that are only tried."""
        return dataclasses.replace(self, traced_cpu_s=min(self.traced_cpu_s, self.cpu_s))


async def run(
    problem: Problem,
    case: Case,
    runner: Runner,
    limits: RunLimits,
    *,
    traced: RunResult | None = None,
    plain: RunResult | None = None,
) -> tuple[Item, Trace | None]:
    """The item after its runs, and its trace if it is to be used.

    Args:
        traced: The traced run under seed A, where it was made before and ended by itself.
        plain: The plain run under seed B, where it was made before.
    """
    runs = Runs(problem, case, runner, limits)
    item = Item(id=f"{problem.id}/{case.number}", problem=problem.id, case=case)
    try:
        item, trace = await _judge(item, problem, runs, traced, plain)
    except SandboxLost as error:
        await check_machine(runner, limits)
        item, trace = item.dropped(RUN, "sandbox-lost", str(error)), None
    return item, trace


async def check_machine(runner: Runner, limits: RunLimits) -> None:
    """See that a program that does nothing can run, after one that lost its sandbox each time.

    Raises:
        SandboxUnavailable: It cannot, so the fault is this machine's, and items would be dropped for nothing.
    """
    nothing = Case(number=0, stdin="")
    request = Request(
        source="pass\n", entry=None, case=nothing, hash_seed=0, traced=False, cpu_s=limits.cpu_s
    )  # fmt: skip
    try:
        await runner.run(request)
    except SandboxLost as error:
        raise SandboxUnavailable([f"each sandbox is lost, of a program that does nothing, too: {error}"]) from error


class Runs:
    """Runs one item. A run that the sandbox lost is tried again."""

    def __init__(self, problem: Problem, case: Case, runner: Runner, limits: RunLimits) -> None:
        self.problem, self.case, self.runner, self.limits = problem, case, runner, limits

    async def __call__(self, seed: int, *, traced: bool, again: bool = False) -> RunResult:
        """Run it once.

        Args:
            again: Whether such a run has ended within its time before.

        Raises:
            SandboxLost: It was lost each time that it was tried.
        """
        cpu_s = self.limits.traced_cpu_s if traced else self.limits.cpu_s
        request = Request(
            source=self.problem.source,
            entry=self.problem.entry,
            case=self.case,
            hash_seed=seed,
            traced=traced,
            cpu_s=_AGAIN * cpu_s if again else cpu_s,
            probed=self.limits.stable_only and seed == PLAIN_SEED,
        )
        for left in reversed(range(_TRIES)):
            try:
                return await self.runner.run(request)
            except SandboxLost:
                if not left:
                    raise
        raise AssertionError("the last try returns or raises")


async def _judge(
    item: Item, problem: Problem, runs: Runs, traced: RunResult | None, plain: RunResult | None
) -> tuple[Item, Trace | None]:
    # The cheapest look comes first, then the untraced run, which takes a fraction of a traced one.
    if misfit := signature.misfit(problem, item.case):
        return item.dropped(RUN, *misfit), None
    plain = await runs(PLAIN_SEED, traced=False) if plain is None else plain
    if reason := _refused(problem, plain):
        return item.dropped(RUN, *reason), None
    if plain.drawn:
        return item.dropped(RUN, *drawing(plain)), None
    traced = await runs(TRACED_SEED, traced=True) if traced is None else traced
    usable = not _refused(problem, traced)
    # A third run, under the seed of the traced one, tells whether the seed or the tracer made the difference.
    if not usable or not same(plain.answer, traced.answer):
        again = await runs(TRACED_SEED, traced=False, again=True)
        if again.outcome == "timeout":
            return item.dropped(RUN, again.outcome, "it ended in time under another hash seed"), None
        if _refused(problem, again) or not same(plain.answer, again.answer):
            outputs = [_shown(plain.answer), _shown(again.answer)]
            return item.dropped(RUN, "nondeterministic-output", outputs=outputs), None
        item = dataclasses.replace(item, answer=plain.answer, runnable=True)
        return item.dropped(RUN, *_untraceable(problem, plain, traced)), None
    item = dataclasses.replace(item, answer=plain.answer, runnable=True)
    return await _examine(item, traced, runs)


async def _examine(item: Item, traced: RunResult, runs: Runs) -> tuple[Item, Trace | None]:
    trace = traced.trace
    if trace is None or not trace.complete:
        reasons = ["there is no trace"] if trace is None else trace.reasons
        return item.dropped(RUN, "incomplete-trace", "; ".join(reasons)), None
    other = (await runs(PLAIN_SEED, traced=True, again=True)).trace
    # By digest: the records themselves may be hundreds of megabytes.
    stable = other is not None and other.complete and other.header.sha256 == trace.header.sha256
    item = dataclasses.replace(item, traced=summary(trace, stable=stable))
    if not stable and runs.limits.stable_only:
        return item.dropped(RUN, "nondeterministic-trace", _OTHER_TRACE), None
    return item, trace


def _refused(problem: Problem, ran: RunResult) -> tuple[str, str] | None:
    """Why what a run gave is of no use, or None. An exception is of use."""
    fault = ran.answer.fault
    if ran.outcome not in ("ok", "error"):
        return ran.outcome, _words(fault)
    if ran.dropped_bytes:
        return "too-much-output", f"{ran.dropped_bytes} bytes of its output were dropped"
    if ran.outcome == "ok":
        return None
    if fault is None:
        return "failed", "it ended with an exit code and no exception"
    # The depth of recursion and the memory that are left are other ones under the tracer and on another machine.
    if fault.type in _NOT_DATA:
        return _NOT_DATA[fault.type], _words(fault)
    # A SyntaxError may also be raised by a program that parses well, such as one that calls `eval`.
    if fault.type in signature.SYNTAX_ERRORS and not signature.parses(problem.source):
        return "does-not-parse", _words(fault)
    return None


def drawing(ran: RunResult) -> tuple[str, str]:
    """Why a run that drew on what no second one need find is of no use to a stable dataset: a reason and its detail."""
    reason = READS_CLOCK if ran.drawn == (chance.CLOCK,) else DRAWS
    return reason, f"it {', '.join(_DRAWN[kind] for kind in ran.drawn)}"


def _untraceable(problem: Problem, plain: RunResult, traced: RunResult) -> tuple[str, str]:
    """Why an item that runs well untraced did not do so traced."""
    if refused := _refused(problem, traced):
        return f"traced-{refused[0]}", refused[1]
    return "traced-run-differs", f"untraced {_shown(plain.answer)}, traced {_shown(traced.answer)}"


def _shown(answer: Answer) -> str:
    words = _words(answer.fault) or answer.text or "no value"
    return (words + (f" and printed {answer.stdout!r}" if answer.stdout else ""))[:500]


def _words(fault: Any) -> str:
    return "" if fault is None else f"{fault.type}: {fault.message}"[:500]


COMPARE: Final = "compare"
_MOST_TEXT: Final = 2000


def compare(item: Item) -> Item:
    """The item, dropped if it has an answer other than the recorded one."""
    expected = item.case.expected
    if item.drop is not None or item.answer is None or expected is ABSENT:
        return item
    if fault := item.answer.fault:
        reason, found = "raised-instead-of-recorded-output", f"{fault.type}: {fault.message}"
    else:
        found = item.answer.text
        try:
            agrees = equal_as_json(codec.decode(item.answer.value, literals=True), expected)
            reason = "" if agrees else "recorded-output-mismatch"
        except codec.NotData:
            reason = "output-not-a-literal"
    if not reason:
        return item
    return item.dropped(COMPARE, reason, recorded=literals.text(expected)[:_MOST_TEXT], found=found[:_MOST_TEXT])
