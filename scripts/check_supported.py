"""How many claims that `groundbox prove` calls supported are so when the program runs again under `sys.settrace`.

    python scripts/check_supported.py claims.json

Each item of the file has `program`, `call`, `kind`, `subject`, `value` (as Python) and the words around the claim.
Nothing of groundbox judges: the program runs in this very process, its expressions are evaluated by `eval` in its own
frames, and what was changed, added or removed is looked for between two lines. So feed it programs that you trust.
Those that it cannot judge are printed, to be read.
"""

from __future__ import annotations

import ast
import collections
import copy
import json
import math
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any


class Recorder:
    """Local names before each line, and results of calls, of one run."""

    def __init__(self, program: str, call: str) -> None:
        self.moments: list[tuple[int, dict[str, Any]]] = []
        self.results: list[Any] = []
        self.arguments: list[Any] = []
        self.space: dict[str, Any] = {}
        exec(compile(program, "<program>", "exec"), self.space)  # noqa: S102  see above
        sys.settrace(self._trace)
        try:
            self.result = eval(call, self.space)
        finally:
            sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, arg: Any) -> Any:
        if frame.f_code.co_filename != "<program>":
            return None
        if event in ("line", "return") and len(self.moments) < 20_000:
            kept = {}
            for name, value in frame.f_locals.items():
                try:
                    kept[name] = copy.deepcopy(value)
                except Exception:
                    kept[name] = value
            self.moments.append((id(frame), kept))
        if event == "call":
            self.arguments += [copy.deepcopy(value) for value in frame.f_locals.values()]
        if event == "return":
            self.results.append(copy.deepcopy(arg))
        return self._trace

    def values(self, subject: str) -> list[Any]:
        """What an expression came to, at any line."""
        found = []
        for _, names in self.moments:
            try:
                found.append(eval(subject, self.space, names))
            except Exception:
                continue
        return found


def equal(actual: Any, said: Any, decimals: int | None) -> bool:
    """Whether two values are one, a number to as many decimals as were given."""
    if isinstance(actual, bool) != isinstance(said, bool):
        return False
    if isinstance(actual, float) and isinstance(said, int | float):
        close = math.isclose(actual, said, rel_tol=1e-12)
        return close or (decimals is not None and round(actual, decimals) == said)
    return bool(type(actual) is type(said) and actual == said) or (
        isinstance(actual, int | float) and isinstance(said, int | float) and actual == said
    )


def judge(claim: dict[str, Any], run: Recorder) -> bool | None:
    """Whether a claim is so; None if that is to be read."""
    value, subject = ast.literal_eval(claim["value"]), claim["subject"]
    given = list(run.moments[0][1].values()) if run.moments else []
    if claim["kind"] in ("value", "test"):
        subjects = [subject]
        for words, kinds in (
            ("the string", str),
            ("the list", list),
            ("the dictionary", dict),
            ("any sequence", object),
        ):
            if words in subject:
                names = {n for _, held in run.moments for n, v in held.items() if isinstance(v, kinds)}
                subjects = [subject.replace(words, name) for name in names]
        found = [each for one in subjects for each in run.values(one)]
        if claim["kind"] == "test" and value is True and any(each for each in found):
            return True
        if any(equal(each, value, claim["decimals"]) for each in found):
            return True
        if claim["kind"] == "test" and "==" in subject and len(sides := subject.split("==")) == 2:
            pairs = zip(run.values(sides[0]), run.values(sides[1]), strict=False)
            return any(
                math.isclose(*pair, rel_tol=1e-9) for pair in pairs if all(isinstance(e, int | float) for e in pair)
            )
        return False
    if claim["kind"] == "input":
        return (
            any(equal(v, value, None) for v in (*given, *run.arguments, tuple(given), given, run.moments[0][1])) or None
        )
    if claim["kind"] == "return":
        return any(equal(each, value, claim["decimals"]) for each in (run.result, *run.results)) or None
    if claim["kind"] in ("add", "remove", "change"):
        return changed(claim["kind"], subject, value, run) or None
    return None


def changed(kind: str, subject: str | None, value: Any, run: Recorder) -> bool:
    """Whether something changed so between two lines of one call."""
    names = {name for _, held in run.moments for name in held}
    for expression in [subject] if subject and not subject.startswith("the ") else names:
        last: dict[int, Any] = {}
        for frame, held in run.moments:
            try:
                now = eval(expression, run.space, held)
            except Exception:
                continue
            if frame in last and fits(kind, last[frame], now, value):
                return True
            last[frame] = now
    return False


def fits(kind: str, before: Any, after: Any, value: Any) -> bool:
    """Whether one change is the one."""
    if kind == "change":
        return equal(before, value[0], None) and equal(after, value[1], None)
    if kind == "remove":
        before, after = after, before
    try:
        if isinstance(before, int | float):
            return bool(after - before == value)
        if isinstance(before, str):
            return bool(after in (before + value, value + before) and after != before)
        if isinstance(before, list):
            return bool(after.count(value) > before.count(value) or after[len(before) :] == value)
        return bool(value in after and value not in before)
    except TypeError:
        return False


def _too_long(number: int, frame: FrameType | None) -> None:
    sys.settrace(None)
    raise TimeoutError


def main(path: str) -> None:
    """Print how many are so, are not, and have to be read."""
    counts: collections.Counter[str] = collections.Counter()
    signal.signal(signal.SIGALRM, _too_long)
    runs: dict[tuple[str, str], Recorder | None] = {}
    for claim in json.loads(Path(path).read_text(encoding="utf-8")):
        key = claim["program"], claim["call"]
        if key not in runs:
            signal.alarm(15)
            try:
                runs[key] = Recorder(*key)
            except Exception:
                runs[key] = None  # a library is not there, or it ends in an exception
            signal.alarm(0)
        run = runs[key]
        verdict = judge(claim, run) if run else None
        counts[f"{claim['kind']}: {verdict}"] += 1
        if verdict is not True:
            print(
                verdict,
                claim["kind"],
                claim["call"][:60],
                "|",
                claim["subject"],
                "|",
                claim["value"][:60],
                "|",
                repr(claim["before"][-60:]),
                "[",
                claim["quote"][-110:],
                "]",
                repr(claim["after"][:20]),
            )
    print(counts, file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1])
