"""Write down what the trace's readers, the narrator, the prover and the dataset say, so that two trees can be compared.

    python scripts/dump_behaviour.py /tmp/before          # on the one tree
    python scripts/dump_behaviour.py /tmp/after           # on the other one
    diff -r /tmp/before /tmp/after

Each program is run and traced anew, and one file per program holds all that is said of it. The folder holds the same
bytes whenever nothing has changed: a moved line of code must leave no difference, and a changed verdict shows as one.
Problems and texts are taken from $GROUNDBOX_DATA where it is set, else from examples/problems.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import itertools
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import groundbox
from groundbox.sandbox import arguments
from groundbox.trace.claims import prove
from groundbox.trace.claims.derivable import derivable
from groundbox.trace.narrate.document import document
from groundbox.trace.narrate.narrator import STYLES, Detail, narrate
from groundbox.trace.record import schema
from groundbox.trace.record.reading import Trace
from groundbox.trace.show.forms import FORMS, short
from groundbox.trace.show.page import html
from groundbox.values import codec, literals
from groundbox.values.equal import as_told, equal, equal_as_json, frozen, identical
from groundbox.values.literals import shown

ROOT: Final = Path(__file__).parent.parent
MOST_CHARS: Final = 12_000
MOST_STEPS: Final = 3_000
"""A longer run is written down by the digest of its records alone."""
CASES: Final = 1
"""Inputs of each problem."""
VALUES: Final[Sequence[Any]] = (
    None, True, False, 0, 1, -1, 2**53 - 1, 2**53, -(2**64), 10**500, 0.0, -0.0, 1.0, 1.5, 0.1 + 0.2, 0.3, 1e300,
    math.nan, math.inf, -math.inf, 2j, complex(-0.0, math.nan), "", "a", "é\u2028", "$set", "1", b"", b"\x00\xff", [],
    [1], [1, [2]], [True], [1.0], (), (1,), (1, 2), ((1,), "a"), {}, {"a": 1}, {"b": 2, "a": 1}, {"a": 1, "b": 2},
    {1: "a"},
    {"$a": 1}, {(1, 2): [3]}, {None: 1, True: 2}, set(), {1, 2}, {"a"}, frozenset(), frozenset({3}), {math.nan},
    range(3), range(9, 1, -2), bytearray(b"x"), object, [0.1 + 0.2], [0.3], {"a": (1, 2)}, {"a": [1, 2]},
)  # fmt: skip


class Program(NamedTuple):
    """A program and one call of it; the call is empty for a script."""

    name: str
    source: str
    call: str
    args: Sequence[Any]
    kwargs: dict[str, Any]


def main() -> None:
    """Write all parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="folder to write, emptied first")
    parser.add_argument("--sample", type=int, default=60, metavar="N", help="programs of each file (default: 60)")
    given = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":  # sets are shown in the order of their hashes
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "PYTHONHASHSEED": "0"})
    shutil.rmtree(given.out, ignore_errors=True)
    begun = time.monotonic()
    write_values(given.out / "values.txt")
    count = 0
    with groundbox.Sandbox(hash_seed=0):  # keeps the template warm
        for program in sampled(given.sample):
            write_program(given.out / "programs", program)
            count += 1
        print(f"{count} programs, {time.monotonic() - begun:.0f} s", file=sys.stderr)
        texts = write_proofs(given.out / "proofs", given.sample)
    print(f"{texts} texts, {time.monotonic() - begun:.0f} s", file=sys.stderr)
    write_dataset(given.out / "dataset", given.sample)
    print(f"dataset, {time.monotonic() - begun:.0f} s", file=sys.stderr)


def lines_of(name: str) -> list[dict[str, Any]]:
    """The lines of a file of $GROUNDBOX_DATA, none where it is not there."""
    path = Path(os.environ.get("GROUNDBOX_DATA", "/nonexistent")) / name
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def spread(items: Sequence[Any], count: int) -> list[Any]:
    """So many of the items, at equal distances."""
    return list(items[:: max(1, len(items) // count)][:count])


def sampled(count: int) -> Iterator[Program]:
    """Programs of every file there is."""
    for number, line in enumerate(spread(lines_of("cruxeval-400.jsonl"), count)):
        call = ast.parse(f"f({line['input']})", mode="eval").body
        try:
            yield called(f"crux-{number:03}", line["code"], call)
        except ValueError:
            continue
    for number, line in enumerate(spread(lines_of("pyedu-514.jsonl"), count)):
        for case, each in enumerate(line["ios"][:CASES]):
            yield Program(f"pyedu-{number:03}-{case}", line["refcode"], line["funcname"], (), each["input"])
    for path in sorted((ROOT / "tests/trace/narrate/programs").rglob("*.py")):
        yield Program(f"test-{path.stem}", path.read_text(), "", (), {})


def called(name: str, source: str, call: ast.expr) -> Program:
    """A call as it is written.

    Raises:
        ValueError: Its arguments are not literals.
    """
    assert isinstance(call, ast.Call)
    assert isinstance(call.func, ast.Name)
    pairs: list[tuple[str, Any]] = []
    for keyword in call.keywords:
        value = ast.literal_eval(keyword.value)
        pairs += value.items() if keyword.arg is None else [(keyword.arg, value)]
    return Program(name, source, call.func.id, [ast.literal_eval(each) for each in call.args], dict(pairs))


def traced(program: Program) -> Trace | None:
    """The run of a program, None where it did not begin."""
    call: dict[str, Any] = (
        {"call": program.call, "args": program.args, "kwargs": program.kwargs} if program.call else {}
    )
    mode: Literal["call", "script"] = "call" if program.call else "script"
    trace: Trace | None = groundbox.run(program.source, mode=mode, trace=True, hash_seed=0, **call).trace
    return trace


def write_program(folder: Path, program: Program) -> None:
    """All that is said of one run."""
    trace = traced(program)
    if trace is None:
        write(folder / f"{program.name}.txt", ["no trace"])
        return
    parts = [
        f"{trace.core} complete={trace.complete} folded={trace.folded} {trace.reasons} {sorted(trace.counts.items())}"
    ]
    parts.append(f"sha256 {hashlib.sha256(trace.dumps()).hexdigest()}")
    if trace.counts.get("line", 0) <= MOST_STEPS:
        parts.extend(said_of(trace))
    write(folder / f"{program.name}.txt", parts)


def said_of(trace: Trace) -> Iterator[str]:
    """Forms, queries, tellings with their claims, and what holds of these."""
    for name, form in FORMS.items():
        yield f"== {name}\n{form(trace)}"
    yield f"== short\n{short(trace)}"
    yield f"== html {hashlib.sha256(html(trace).encode()).hexdigest()}"
    for line in sorted({record.n for record in trace.records if isinstance(record, schema.Line)}):
        yield f"== why {line}\n{trace.why(line)}"
    details: Sequence[Detail] = ("normal", "brief", "full")
    for style, detail in itertools.product(STYLES, details):
        if style == "backward" and (trace.header.entry is None or detail != "normal"):
            continue
        told = narrate(trace, style=style, detail=detail, seed=1, max_chars=MOST_CHARS)
        yield f"== {style} {detail} {told.detail} whole={told.whole}\n{told.text}"
        claims = document(told, trace)
        yield "== claims\n" + "\n".join(json.dumps(each, sort_keys=True) for each in claims["sentences"])
        found = prove(told.text, trace, claims=claims, strict=True)
        yield "== proof\n" + json.dumps(found.to_dict(), sort_keys=True, default=str)
        if style != "backward":
            yield f"== derivable\n{derivable(told.sentences, trace)}"
            wrong = told.text.replace("1", "2").replace("True", "False")
            yield "== refuted\n" + json.dumps(prove(wrong, trace).to_dict(), sort_keys=True, default=str)


def write_proofs(folder: Path, count: int) -> int:
    """Verdicts on texts that models wrote."""
    texts = spread(lines_of("narrations/narrations.jsonl"), count)
    for number, text in enumerate(texts):
        if "random" in text["program"]:  # another run each time
            continue
        program = called(f"{number:03}", text["program"], ast.parse(text["call"], mode="eval").body)
        trace = traced(program)
        if trace is not None and trace.counts.get("line", 0) <= MOST_STEPS:
            proof = prove(text["text"], trace).to_dict()
            write(folder / f"{number:03}.txt", [json.dumps(proof, sort_keys=True, indent=1, default=str)])
    return len(texts)


def write_dataset(folder: Path, count: int) -> None:
    """The samples of a small dataset, and its report, but for what tells time."""
    name = "pyedu-514.jsonl"
    lines = spread(lines_of(name), count) or None
    with tempfile.TemporaryDirectory() as kept:
        problems = ROOT / "examples/problems/everyday.jsonl"
        if lines is not None:
            problems = Path(kept, name)
            problems.write_text("".join(json.dumps(line) + "\n" for line in lines))
        out = Path(kept, "out")
        command: list[str | Path] = [
            sys.executable,
            "-m",
            "groundbox",
            "dataset",
            "build",
            "--problems",
            problems,
            "--out",
            out,
        ]
        command += ["--cases", "2", "--workers", "2"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for path in sorted(out.rglob("*.jsonl")):
            write(folder / path.relative_to(out), [path.read_text()])


def write_values(path: Path) -> None:
    """Forms and equalities of values."""
    parts = []
    for value in VALUES:
        forms = (
            lambda value: literals.text(value),
            lambda value: json.dumps(literals.encode(value)),
            lambda value: literals.text(literals.decode(json.loads(json.dumps(literals.encode(value))))),
            literals.digest,
            lambda value: json.dumps(arguments.encode("x", value)),
            lambda value: json.dumps(codec.encode(value, exact=False)),
            lambda value: literals.text(codec.decode(codec.encode(value, exact=False))),
            lambda value: json.dumps(codec.result_of(value)),
            shown,
            lambda value: repr(frozen(value)),
        )
        parts += [f"{answer(repr, value)[:100]}: {' | '.join(answer(form, value) for form in forms)}"]
    for one, other in itertools.product(VALUES, repeat=2):
        verdicts = [
            answer(lambda pair, by=by: by(*pair), (one, other)) for by in (as_told, equal, identical, equal_as_json)
        ]
        if set(verdicts) != {"False"}:
            parts.append(f"{answer(repr, one)[:60]} and {answer(repr, other)[:60]}: {' '.join(verdicts)}")
    write(path, parts)


def answer(function: Any, value: Any) -> str:
    """What a function gives, or the class of what it raises."""
    try:
        return str(function(value))
    except Exception as error:
        return type(error).__name__


def write(path: Path, parts: Iterable[str]) -> None:
    """Write a file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(parts) + "\n", encoding="utf-8", errors="surrogatepass")


if __name__ == "__main__":
    main()
