"""Running a program again under other circumstances, to see whether its answer stays.

Five things are changed, one at a time, each in fresh sandboxes: nothing at all (what varies then varies with the clock,
or with chance that no seed reaches), the seed of string hashing, the seed of `random` and `numpy.random`, the order of
rows in the CSV files that were given, and the time zone, with it the date of today. Everything else stays fixed, so
that a difference has one cause. What varies without any change is not asked about again.

The circumstances themselves come from fixed seeds: for a program that is repeatable under each of them, the same call
gives the same warnings, word by word.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import hashlib
import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from groundbox.check.equality import same_text
from groundbox.errors import InvalidArgument
from groundbox.execution import Execution, Warning
from groundbox.sandbox.portal import PORTAL
from groundbox.sandbox.sandbox import AsyncSandbox

TIER: Final = "note"
MOST_RUNS: Final = 10
_MOST_SHOWN: Final = 8
_SHOWN_CHARS: Final = 80
# `<object at 0x7f…>` differs in each process and is no answer.
_ADDRESS: Final = re.compile(r"\b0x[0-9a-fA-F]{6,16}\b")
_ROWS_NEEDED: Final = 2
# At whatever time, it is another day than in UTC in one of both. As POSIX writes zones, which needs no files.
_EAST: Final = "<+14>-14"
_WEST: Final = "<-12>12"
_EAST_FROM_H: Final = 11  # in the hour before and after, both will do
_OF_TIME: Final = re.compile(r"time|date|today|now|tz|zone|calendar|ctime|clock", re.IGNORECASE)
# Runs in the sandbox before the program, in a function of its own, so that no name of it is left;
# `time.tzset` makes the C library read TZ again.
_SEEDING: Final = """\
def _seed():
    import os, time
    os.environ["TZ"] = {zone!r}
    time.tzset()
    import random
    random.seed({seed})
    try:
        import numpy
    except ImportError:
        return
    numpy.random.seed({seed})
_seed()
del _seed
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Circumstances:
    files: Mapping[str, bytes]
    hash_seed: int = 0
    seed: int = 0
    zone: str = "UTC0"


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Change:
    """A way to change the circumstances.

    Attributes:
        variant: Gives the circumstances of one more run; variants are counted from 1.
    """

    code: str
    words: str
    hint: str
    variant: Callable[[_Circumstances, int], _Circumstances]


_CHANGES: Final = (
    _Change(
        code="determinism.clock",
        words="without any change",
        hint="It depends on the time, on chance without a seed, or on which of several threads is first: fix them, "
        "or leave them out of the answer.",
        variant=lambda base, number: base,
    ),
    _Change(
        code="determinism.hash_seed",
        words="with another seed of string hashing",
        hint="A set, or something built from one, is in no fixed order: sort it before it is shown.",
        variant=lambda base, number: dataclasses.replace(base, hash_seed=base.hash_seed + number),
    ),
    _Change(
        code="determinism.random_seed",
        words="with another random seed",
        hint="Say with the answer that it is an estimate, fix the seed, or draw more.",
        variant=lambda base, number: dataclasses.replace(base, seed=base.seed + number),
    ),
    _Change(
        code="determinism.row_order",
        words="with the rows of the input in another order",
        hint="Sort by a key before taking the first, the last, a running value or the winner of a tie.",
        variant=lambda base, number: dataclasses.replace(base, files=_shuffled(base.files, number)),
    ),
    _Change(
        code="determinism.time_zone",
        words="with another time zone, where it is another day",
        hint="Say which zone is meant (ZoneInfo('Europe/Berlin'), timezone.utc), and write the day that the question "
        "is about into the program instead of asking for today.",
        variant=lambda base, number: dataclasses.replace(
            base, zone=_zone_of_another_day(datetime.datetime.now(datetime.UTC))
        ),
    ),
)


def check_determinism(source: str, **options: Any) -> list[Warning]:
    """See check_determinism_async."""
    return PORTAL.call(check_determinism_async(source, **options))


async def check_determinism_async(
    source: str,
    *,
    files: Mapping[str, bytes | str] | None = None,
    runs: int = 1,
    mode: str = "cell",
    call: str | None = None,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    **sandbox: Any,
) -> list[Warning]:
    """Which outputs of a Python program vary, and with which change of its circumstances.

    Outputs are the outcome, the lines of stdout, the value, displays and artifacts. Numbers that differ in their last
    digits only are the same, and so are addresses of objects.

    Args:
        files: Path in the workdir to content. Of .csv and .tsv, the rows are shuffled, under the header.
        runs: Runs of each change, from 1 to 10. Of what varies now and then, more runs find more.
        mode: `cell` or `call`, with `call`, `args` and `kwargs` as in `run`.
        sandbox: Arguments of AsyncSandbox, such as `limits`.

    Returns:
        A warning for each change that some output varies with. Nothing for a program that fails in its first run.

    Raises:
        InvalidArgument: An argument cannot be meant.
    """
    if mode not in ("cell", "call"):
        raise InvalidArgument("mode", f"must be 'cell' or 'call', not {mode!r}: a script draws its seed for itself")
    if isinstance(runs, bool) or not 1 <= runs <= MOST_RUNS:
        raise InvalidArgument("runs", f"must be a whole number from 1 to {MOST_RUNS}, not {runs!r}")
    # `science` has numpy at hand, whose generator has to be seeded as well.
    for name in ("hash_seed", "profile"):
        if name in sandbox:
            raise InvalidArgument(name, "is what is changed here; leave it out")
    contents = {path: data.encode() if isinstance(data, str) else data for path, data in (files or {}).items()}
    options = {"mode": mode, **({"call": call, "args": args, "kwargs": kwargs} if mode == "call" else {})}
    base = _Circumstances(files=contents)

    async def outputs(circumstances: _Circumstances) -> dict[str, str]:
        return _outputs(await _run(source, circumstances, options, sandbox))

    first = await outputs(base)
    # A program that fails says so itself; where it fails is no answer that varies.
    if first["outcome"] != "ok":
        return []
    stable, warnings = dict(first), []
    for change in _CHANGES:
        found: dict[str, str] = {}
        variants = _variants(change, runs, source, contents)
        for number in range(1, variants + 1):
            variant = change.variant(base, number)
            # No table among the files, or one of a single row: another run would only ask the clock again.
            if change.code == "determinism.row_order" and variant.files == base.files:
                continue
            again = await outputs(variant)
            # The first run that differed is shown.
            found = {**_differing(stable, again), **found}
        if found:
            warnings.append(_warning(change, stable, found, variants))
        # First of the changes: an output that varies by itself cannot be blamed on what is changed next.
        if change.code == "determinism.clock":
            stable = {name: text for name, text in stable.items() if name not in found}
    return warnings


async def _run(
    source: str, circumstances: _Circumstances, options: Mapping[str, Any], sandbox: Mapping[str, Any]
) -> Execution:
    box = AsyncSandbox(hash_seed=circumstances.hash_seed, profile="science", **sandbox)
    try:
        for path, data in circumstances.files.items():
            await box.files.write(path, data)
        await box.run(_SEEDING.format(seed=circumstances.seed, zone=circumstances.zone))
        return await box.run_last(source, **options)
    finally:
        await asyncio.shield(box.close())


def _variants(change: _Change, runs: int, source: str, files: Mapping[str, bytes]) -> int:
    """How many runs a change takes: a zone one, where the program may ask for the time, and every other one `runs`."""
    if change.code != "determinism.time_zone":
        return runs
    return 1 if _knows_of_time(source, files) else 0


def _knows_of_time(source: str, files: Mapping[str, bytes]) -> bool:
    """Tell whether a program may ask for the time: a word of it stands there, or in a module that was given with it."""
    modules = (data.decode("utf-8", "replace") for path, data in files.items() if path.endswith(".py"))
    return any(_OF_TIME.search(text) for text in (source, *modules))


def _zone_of_another_day(now: datetime.datetime) -> str:
    return _EAST if now.hour >= _EAST_FROM_H else _WEST


def _outputs(execution: Execution) -> dict[str, str]:
    found = {"outcome": str(execution.outcome)}
    lines = execution.stdout.splitlines()
    found["number of lines on stdout"] = str(len(lines))
    for number, line in enumerate(lines, 1):
        found[f"line {number} of stdout"] = line
    if execution.text is not None:
        found["value"] = execution.text
    for number, display in enumerate(execution.displays, 1):
        found[f"display {number}"] = hashlib.sha256(repr(sorted(display.data.items())).encode()).hexdigest()
    for path, artifact in execution.artifacts.items():
        found[f"artifact {path!r}"] = artifact.sha256
    return found


def _differing(stable: Mapping[str, str], again: Mapping[str, str]) -> dict[str, str]:
    """Outputs that are not as they were, with what they are now. Where the number of lines differs, only that."""
    other_lines = "number of lines on stdout"
    # One line more at the top makes every line another one.
    skip_lines = other_lines not in stable or stable[other_lines] != again[other_lines]
    found = {}
    for name, text in stable.items():
        if skip_lines and name.startswith("line "):
            continue
        if name not in again:
            found[name] = ""
        elif not same_text(_ADDRESS.sub("0x…", text), _ADDRESS.sub("0x…", again[name])):
            found[name] = again[name]
    # Where a value appears that was not there, no output of before differs; the outcome stands for it.
    if "value" in again and "value" not in stable and "outcome" in stable:
        found.setdefault("outcome", again["outcome"])
    return found


def _warning(change: _Change, stable: Mapping[str, str], found: Mapping[str, str], runs: int) -> Warning:
    names = list(found)[:_MOST_SHOWN]
    more = f" and {len(found) - len(names)} more" if len(found) > len(names) else ""
    verb = "varies" if len(found) == 1 else "vary"
    evidence: dict[str, Any] = {"outputs": names, "count": len(found), "runs": runs}
    message = f"{change.words}, {', '.join(names)}{more} {verb}"
    example = next((name for name in names if name.startswith(("line ", "value", "number"))), None)
    if example is not None and change.code != "determinism.clock":  # whose texts would differ from call to call
        before, after = _shown(stable[example]), _shown(found[example])
        message += f": {before} became {after}" if len(found) == 1 else f": {example} was {before} and became {after}"
        evidence["only_order"] = sorted(found.values()) == sorted(stable[name] for name in found)
    return Warning(code=change.code, tier=TIER, message=message, evidence=evidence, hint=change.hint)


def _shuffled(files: Mapping[str, bytes], number: int) -> dict[str, bytes]:
    """The tables among the files with their rows in another order, the first line staying where it is."""
    return {
        path: _shuffle(data, number) if path.lower().endswith((".csv", ".tsv")) else data
        for path, data in files.items()
    }


def _shuffle(data: bytes, number: int) -> bytes:
    header, *rows = _records(data)
    if len(rows) < _ROWS_NEEDED:
        return data
    ended = rows[-1].endswith(b"\n")
    rows = [row.rstrip(b"\r\n") for row in rows]
    before = list(rows)
    # A seed of its own: the same shuffle in each call, so that warnings repeat word by word.
    random.Random(number).shuffle(rows)
    # Two rows stay as they are in half of all shuffles.
    if rows == before:
        rows.reverse()
    ending = b"\r\n" if header.endswith(b"\r\n") else b"\n"
    return header + ending.join(rows) + (ending if ended else b"")


def _records(data: bytes) -> list[bytes]:
    """Lines, but for those that end within quotes, which go on with the next."""
    records = [b""]
    for line in data.splitlines(keepends=True):
        if records[-1].count(b'"') % 2 == 0 and records[-1]:
            records.append(b"")
        records[-1] += line
    return records


def _shown(text: str) -> str:
    text = text.strip()
    return repr(text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…")
