"""Stand-ins for the sandbox, the narrator and the prover, for tests of what a build does with their answers.

The runner runs trusted programs in this process. Its traces know calls, lines, atoms, returns, and
conditions of one operand.
"""

from __future__ import annotations

import ast
import asyncio
import collections
import contextlib
import dataclasses
import gc
import io
import json
import os
import re
import signal
import sys
import time
from pathlib import Path
from typing import Any

from groundbox.dataset.item import Answer, Fault
from groundbox.dataset.narration import LEFT_OUT, Proved, Said, Told
from groundbox.dataset.processes import share
from groundbox.dataset.program_runner import RunResult
from groundbox.errors import SandboxUnavailable
from groundbox.trace.record import schema
from groundbox.trace.record.reading import assemble
from groundbox.trace.record.schema import Entry
from groundbox.values import literals

LIMITS = {"soft_events": 20_000, "max_events": 200_000, "max_bytes": 1 << 25}


class FakeRunner:
    """Runs programs with `exec`.

    Attributes:
        runs: How many it ran.
        answer: Called with the request and the run, gives the run that is reported.
    """

    def __init__(self, answer=None, pause_s=0.0):
        self.runs = 0
        self.answer = answer
        self.pause_s = pause_s

    async def run(self, request):
        await asyncio.sleep(self.pause_s)
        self.runs += 1
        ran = run_here(request)
        return self.answer(request, ran) if self.answer else ran


class DeadlyRunner(FakeRunner):
    """Ends its process with a program that says so, as one does whose trace takes all memory."""

    async def run(self, request):
        if "poison" in request.source:
            os.kill(os.getpid(), signal.SIGKILL)
        return await super().run(request)


def deadly_tell(trace, **options):
    """A narrator of the same kind."""
    if "poison" in trace.source:
        os.kill(os.getpid(), signal.SIGKILL)
    return tell(trace, **options)


def run_here(request):
    recorder = Recorder() if request.traced else None
    stdout, value, fault = io.StringIO(), None, None
    namespace: dict[str, Any] = {"__name__": "__main__" if request.entry is None else "program"}
    with contextlib.redirect_stdout(stdout):
        try:
            code = compile(request.source, "main.py", "exec")
            stdin, sys.stdin = sys.stdin, io.StringIO(request.case.stdin or "")
            sys.settrace(recorder)
            try:
                exec(code, namespace)
                if request.entry is not None:
                    value = namespace[request.entry](*request.case.args, **request.case.kwargs)
            finally:
                sys.settrace(None)
                sys.stdin = stdin
        except Exception as error:
            lines = [frame.lineno for frame in frames(error) if frame.filename == "main.py"]
            fault = Fault(type=type(error).__name__, message=str(error), line=lines[-1] if lines else None)
    data = nested(value)
    told = fault is None and request.entry is not None
    return RunResult(
        outcome="error" if fault else "ok",
        answer=Answer(
            value=data if told else None,
            text=literals.text_of(data) if told else "",
            stdout=stdout.getvalue(),
            fault=fault,
        ),
        dropped_bytes=0,
        cpu_s=0.01,
        trace=recorder.trace(request, "error" if fault else "ok") if recorder else None,
    )


def frames(error):
    import traceback

    return traceback.extract_tb(error.__traceback__)


def nested(value):
    """A literal as runs report it."""
    if isinstance(value, dict):
        return {"dict": [[nested(key), nested(each)] for key, each in value.items()]}
    if isinstance(value, list | tuple | set):
        items = [nested(each) for each in (sorted(value, key=literals.text) if isinstance(value, set) else value)]
        return {type(value).__name__: items}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return {"opaque": type(value).__name__}


class Recorder:
    """A trace function that writes records as docs/trace.md has them."""

    def __init__(self):
        self.records, self.frames, self.known, self.count = [], {}, {}, 0

    def __call__(self, frame, event, _):
        if frame.f_code.co_filename != "main.py":
            return None
        self.count += 1
        number = self.frames[frame] = self.count
        parent = self.frames.get(frame.f_back, 0)
        args = {name: atom(frame.f_locals[name]) for name in frame.f_code.co_varnames[: frame.f_code.co_argcount]}
        record = {"k": "call", "f": number, "p": parent, "name": frame.f_code.co_qualname, "n": max(1, frame.f_lineno)}
        self.records.append(record if frame.f_code.co_name == "<module>" else {**record, "args": args})
        self.known[frame] = dict(frame.f_locals)
        return self.step

    def step(self, frame, event, arg):
        number = self.frames[frame]
        if frame.f_code.co_name != "<module>":
            for name, value in frame.f_locals.items():
                if name not in self.known[frame] or self.known[frame][name] is not value:
                    self.records.append({"k": "set", "f": number, "name": name, "v": atom(value)})
        self.known[frame] = dict(frame.f_locals)
        if event == "line":
            self.records.append({"k": "line", "f": number, "n": frame.f_lineno})
        elif event == "exception":
            self.records.append({"k": "raise", "f": number, "n": frame.f_lineno, "type": arg[0].__name__})
            self.raised = frame
        elif event == "return" and arg is None and getattr(self, "raised", None) is frame:
            self.records.append({"k": "unwind", "f": number, "n": frame.f_lineno})
        elif event == "return":
            self.records.append({"k": "return", "f": number, "n": frame.f_lineno, "v": atom(arg)})
        return self.step

    def trace(self, request, outcome):
        lines = [json.dumps(each).encode() for each in [*tested(self.records, request.source), {"k": "end"}]]
        return assemble(
            b"".join(line + b"\n" for line in lines),
            source=request.source,
            filename="main.py",
            mode="call" if request.entry else "script",
            entry=Entry(call=request.entry) if request.entry else None,
            python="3.11.0",
            hash_seed=request.hash_seed,
            limits=LIMITS,
            outcome=outcome,
        )


def tested(records, source):
    """The records with tests, iterations and ends of loops, of programs whose bodies begin on a line of their own.

    An `if` or `while` of one operand was true if its block ran next.
    """
    nodes = list(ast.walk(ast.parse(source)))
    asked = {node.lineno: node for node in nodes if isinstance(node, ast.If | ast.While)}
    loops = {node.lineno: node for node in nodes if isinstance(node, ast.For | ast.While)}
    lines, values, rounds = {}, {}, collections.Counter()
    for record in records:
        frame = record["f"]
        came_from = lines.pop(frame, 0) if record["k"] in ("line", "return") else 0
        node, loop = asked.get(came_from), loops.get(came_from)
        if node is not None and isinstance(node.test, ast.Compare | ast.Name | ast.BinOp | ast.Call):
            test = node.test
            at = [test.lineno, test.col_offset, test.end_lineno, test.end_col_offset]
            yield {"k": "test", "f": frame, "at": at, "v": record["n"] == node.body[0].lineno}
        if loop is not None and record["n"] == loop.body[0].lineno:
            rounds[frame, came_from] += 1
            told = {"k": "iteration", "f": frame, "n": came_from, "number": rounds[frame, came_from]}
            target = getattr(loop, "target", None)
            names = target.elts if isinstance(target, ast.Tuple) else [target] if target else []
            items = [values.get((frame, each.id)) for each in names if isinstance(each, ast.Name)]
            yield {**told, "items": items} if items else told
        elif loop is not None:
            yield {"k": "ended", "f": frame, "n": came_from, "iterations": rounds[frame, came_from]}
        if record["k"] == "line":
            lines[frame] = record["n"]
            loop = loops.get(record["n"])
            if loop is not None and not loop.body[0].lineno <= came_from <= loop.end_lineno:
                rounds[frame, loop.lineno] = 0
        elif record["k"] == "set":
            values[frame, record["name"]] = record["v"]
        yield record


def atom(value):
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return {"opaque": type(value).__name__}


def tell(trace, *, style, seed, max_chars):
    """Every name that takes a value, a sentence each."""
    sentences = []
    for t, record in enumerate(trace.records):
        if isinstance(record, schema.Set) and not isinstance(record.v, dict):
            sentences.append(Said(text=f"{record.name} becomes {record.v!r}.", until=t, values=(repr(record.v),)))
    text = " ".join(each.text for each in sentences) or "Nothing is assigned."
    return Told(text=text, sentences=sentences, claims=len(sentences), style=style, detail="full")


def prove(told, trace):
    """Whether the sentences are what `tell` would say."""
    return prove_text(told.text, trace)


def prove_text(text, trace):
    """The same of a text."""
    true = tell(trace, style="prose", seed=0, max_chars=0)
    total = max(1, text.count("becomes"))
    if text == true.text:
        return Proved(faithful=True, total=total, proven=total, coverage=1.0, failed=())
    return Proved(faithful=False, total=total, proven=total - 1, coverage=1.0, failed=("something differs",))


def prove_foreign(telling, trace, expected):
    """As `prove`; a sentence that it does not know fails, and one left out may be anything."""
    proved = prove_text(telling.text.replace(f"{LEFT_OUT} ", ""), trace)
    spans = [match.span() for match in re.finditer(r"[^ ].*?\.(?= |$)", telling.text)]
    known = {*tell(trace, style="prose", seed=0, max_chars=0).text.split(". "), LEFT_OUT[:-1]}
    wrong = tuple(start for start, end in spans if telling.text[start : end - 1] not in known and start)
    return dataclasses.replace(proved, sentences=tuple(spans), unproven=wrong)


def part(shard):
    return {"traces": b"t", "jsonl": str(shard.payload).encode()}


def threshold(shard):
    return {"jsonl": str(gc.get_threshold()[0]).encode()}


def pause(shard):
    time.sleep(shard.payload)
    return {"jsonl": str(shard.payload).encode()}


def die(shard):
    os._exit(9)


def interrupt(shard):
    os.kill(os.getpid(), signal.SIGINT)
    return part(shard)


def fail(shard):
    raise LookupError(shard.payload)


@dataclasses.dataclass(frozen=True)
class Hosted:
    """Work that runs programs, as a host carries it out.

    Attributes:
        does: What it does with a shard: name of a function of this module, or of a few own ones.
        hosts: Any number, by which it is told from others.
    """

    does: str = "tell"
    hosts: int = 0

    async def __call__(self, shard):
        if self.does == "tell":
            # Of as many as there is one of for each host, this one's.
            return {"jsonl": json.dumps([shard.payload, os.getpid(), 100 // share(100)]).encode()}
        if self.does == "meet":  # both must be under way at once
            folder = shard.payload["folder"]
            os.mkdir(f"{folder}/{shard.number}")
            while len(os.listdir(folder)) < shard.payload["count"]:  # noqa: ASYNC110  others are other processes
                await asyncio.sleep(0.01)
            return {"jsonl": str(os.getpid()).encode()}
        if self.does == "die once":
            with contextlib.suppress(FileExistsError):
                os.close(os.open(shard.payload, os.O_CREAT | os.O_EXCL))
                os._exit(9)
            return {"jsonl": b"the second time"}
        if self.does == "hang once":  # and the second time not
            with contextlib.suppress(FileExistsError):
                os.close(os.open(shard.payload, os.O_CREAT | os.O_EXCL))
                await asyncio.sleep(3600)
            return {"jsonl": b"the second time"}
        if self.does == "hold":  # until it is let go
            folder = Path(shard.payload)
            with (folder / f"begun-{shard.number}").open("a") as file:
                file.write(f"{os.getpid()}\n")
            while "go" not in os.listdir(folder):  # noqa: ASYNC110  whoever lets it go is another process
                await asyncio.sleep(0.05)
            return {"jsonl": str(os.getpid()).encode()}
        if self.does == "compute":
            until = time.process_time() + 0.3
            while time.process_time() < until:
                pass
            return {"jsonl": b""}
        if self.does == "which":
            return {"jsonl": json.dumps([os.getpid(), id(self)]).encode()}
        if self.does == "mask":
            return {"jsonl": repr(sorted(signal.pthread_sigmask(signal.SIG_BLOCK, []))).encode()}
        if self.does == "unavailable":
            raise SandboxUnavailable(["cgroup: none"], ["mend it"])
        if self.does == "strange":
            raise StrangeError(1, 2)
        return globals()[self.does](shard)


class StrangeError(Exception):
    """Cannot be pickled."""

    def __init__(self, one, other):
        super().__init__(f"{one} and {other}")
