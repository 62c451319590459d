"""Derivable: whether each value that a telling states follows, by one step, from what was told before it.

Theory of operation. The reader of a telling knows the program and the inputs of the run, and takes every value for
known that a sentence has stated. A stated value is a *fact*: a name took it, a call returned it, an object changed by
it, a test came out so, a text was printed. Each is one record, and the record belongs to a *step*: one execution of a
statement, with the calls that it made. The fact follows if

- everything that the statement read is known: each name as it was last set, the content of each container since it
  was last told whole and then change by change, each attribute, and what each call of the program's own functions
  gave, which has to be told itself;
- the statement's expression takes at most `MOST_OPERATIONS` operations (a library call is one, whatever it is given;
  a container that is shown whole counts by its most costly item, since each of its items is shown);
- it is known that control came here: every test between this step and the last one that the text spoke of has been
  told, or follows itself.

A value that does not follow is a *jump*. It is known from then on, as far as it was shown.

What is told within a sentence is taken in the order of its claims, so that a value told before the one that it
depends on does not follow: nothing told from the end to the beginning does. Versions of names and contents of objects
are compared by the records that made them, so a claim is only believed where its value is the recorded one.

What is read is over-estimated (all of a container where one item is asked for), and so is what may have been known:
a statement's whole expression, where its told part needs less. Values of the standard library that a trace does not
look into (iterators, compiled patterns) are taken for known.
"""

from __future__ import annotations

import ast
import bisect
import dataclasses
import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final, NamedTuple, Protocol

from groundbox.trace.claims.steps import MOST_PASSED_ON, Fact, Key, Read, RunSteps, Step
from groundbox.trace.record import schema
from groundbox.trace.record.reading import Trace
from groundbox.trace.record.value import ref_of

MOST_OPERATIONS: Final = 20
"""Operations of one step."""
MOST_STEPS_BACK: Final = 400
"""Steps between two told ones over which the tests are looked at."""
MOST_REFS: Final = 1_000
"""Records of one claim that are looked at."""
MOST_JUMPS: Final = 200
"""Jumps that are described; more are counted."""

_VALUES: Final = frozenset(("value", "condition", "return", "count", "mutation", "output", "exception", "answer"))
_AGAIN: Final = re.compile(r"the same [\w.]+ as before")


class Stated(Protocol):
    """A claim: which records show it, and what is said of what."""

    @property
    def kind(self) -> str: ...
    @property
    def refs(self) -> Sequence[int]: ...
    @property
    def frame(self) -> int: ...
    @property
    def subject(self) -> str: ...
    @property
    def value(self) -> str: ...


class Told(Protocol):
    """A sentence with its claims."""

    @property
    def claims(self) -> Sequence[Stated]: ...


class Jump(NamedTuple):
    """A value that does not follow.

    Attributes:
        sentence: Its number, from 0.
        missing: Why, in words.
    """

    sentence: int
    subject: str
    value: str
    missing: str

    @property
    def text(self) -> str:
        """In words: `` `x` = 3: `y`, set by line 2``."""
        return f"`{self.subject}` = {self.value}: {self.missing}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Derivation:
    """Result for a telling: how many of its values follow, and which do not.

    Attributes:
        values: Stated values by sentence.
        followed: Those that follow, by sentence.
        jumps: The first of the others.
    """

    values: tuple[int, ...]
    followed: tuple[int, ...]
    jumps: tuple[Jump, ...]

    def share(self, sentences: int | None = None) -> float:
        """The share of the values of the first sentences that follow; 1 for a text without values."""
        total = sum(self.values[:sentences])
        return round(sum(self.followed[:sentences]) / total, 4) if total else 1.0


def derivable(sentences: Sequence[Told], trace: Trace) -> Derivation:
    """Judge each value that a telling states.

    Args:
        sentences: In the order of the text.
    """
    course = RunSteps(trace)
    stated = [[_facts(claim, course) for claim in sentence.claims] for sentence in sentences]
    # One pass over the run for all facts: states are built once.
    course.look(fact for row in stated for facts in row for fact in facts)
    reader = _Reader(course)
    values, followed = [0] * len(sentences), [0] * len(sentences)
    jumps: list[Jump] = []
    for number, (sentence, row) in enumerate(zip(sentences, stated, strict=True)):
        for claim, facts in zip(sentence.claims, row, strict=True):
            counted = claim.kind in _VALUES and claim.value != "" and bool(facts)
            missing = reader.missing(claim, facts) if counted else ""
            reader.learn(claim, facts, follows=not missing)
            values[number] += counted
            followed[number] += counted and not missing
            if missing and len(jumps) < MOST_JUMPS:
                jumps.append(Jump(number, claim.subject[:200], claim.value[:200], missing))
    return Derivation(values=tuple(values), followed=tuple(followed), jumps=tuple(jumps))


def _facts(claim: Stated, course: RunSteps) -> list[Fact]:
    """The records that a claim speaks of, none where there is nothing to be known of them."""
    refs = [ref for ref in claim.refs[:MOST_REFS] if 0 <= ref < len(course.records)]
    if not refs:
        return []
    records = course.records
    match claim.kind:
        case "value" if claim.subject.isidentifier():
            own = [ref for ref in refs if _sets(records[ref], claim.frame, claim.subject)]
            if len(own) > 1:  # one after the other, as a row
                return [Fact((ref, claim.subject), ref) for ref in own]
            changes = [Fact((ref, ""), ref) for ref in refs if isinstance(records[ref], schema.Mutate)]
            _, found = course.setting(claim.frame, claim.subject, refs[-1] + 1)
            if found is None:
                return changes
            return [*changes, Fact((found, claim.subject), refs[-1], (course.value(found, claim.subject),))]
        case "return" | "answer":
            given = [ref for ref in refs if isinstance(records[ref], schema.Return | schema.Yield)]
            facts = [Fact((ref, ""), ref, (getattr(records[ref], "v", None),)) for ref in given[-1:]]
            calls = [ref for ref in refs if isinstance(records[ref], schema.Call)] if claim.kind == "return" else []
            others = [Fact((ref, ""), ref) for ref in refs if isinstance(records[ref], schema.Out | schema.Raise)]
            return [*(Fact((ref, name), ref) for ref in calls for name in _arguments(records[ref])), *facts, *others]
        case "call" | "order":
            return []
        case "count" if claim.subject.startswith("calls"):
            return []
    return [Fact((ref, ""), ref) for ref in refs]


def _arguments(record: Any) -> list[str]:
    return [name for name in record.args if name not in ("self", "cls")]


def _sets(record: schema.Record, frame: int, name: str) -> bool:
    if isinstance(record, schema.Call):
        return record.f == frame and name in record.args
    return isinstance(record, schema.Set) and record.f == frame and record.name == name


class _Reader:
    """Knows what was told."""

    def __init__(self, course: RunSteps) -> None:
        self._course = course
        self._known: set[Key] = set()
        self._whole: dict[int, list[int]] = {}  # per label the records after which its content was known
        self._anchors: set[tuple[int, int]] = set()  # steps that the text spoke of, by frame and index
        self._called: set[int] = set()
        self._items: set[int] = set()  # steps of whose comprehension the items were told
        self._implicit: dict[Key, str] = {}
        if course.entry is not None:
            # The inputs of the run are known beforehand, with all that they lead to.
            call = course.frames[course.entry].call
            self._called.add(course.entry)
            self._known.update((call, name) for name in course.records[call].args)  # type: ignore[union-attr]
            self._keep_whole(course.closures.get(((call, ""), call), ()), call)

    def missing(self, claim: Stated, facts: Sequence[Fact]) -> str:
        """Return why a claim does not follow; "" for one that does."""
        course = self._course
        items = "…" not in claim.value
        told = {fact.key[0] for fact in facts}
        for fact in facts:
            if fact.value is not None and not _is_as_told(claim.value, course.texts.get((fact.key, fact.t), "")):
                return "the record shows another value"
            # Told before: it may be told again without a reason.
            missing = "" if fact.key in self._known else self._missing_of(fact.key, items=items)
            missing = missing or self._changed_since(fact, told)
            if missing:
                return missing
        return ""

    def _changed_since(self, fact: Fact, told: Collection[int]) -> str:
        """Changes of what a name or result leads to, after it was given and before the claim speaks of it."""
        course = self._course
        # It is told as it was when it was given.
        if fact.value is None or fact.t == fact.key[0]:
            return ""
        for label in course.closures.get((fact.key, fact.t), ()):
            at = self._unknown_change(label, fact.t + 1, since=fact.key[0], told=told)
            if at is not None:
                return self._since(f"what is in `{fact.key[1]}`", " since", at)
        return ""

    def _unknown_change(
        self, label: int, upto: int, *, since: int = -1, told: Collection[int] = (), own: Step | None = None
    ) -> int | None:
        """The record because of which an object's content is not known before another one; None if it is known.

        Args:
            since: The record after which changes are looked at.
            told: Records that are told now.
            own: The step whose changes do not count.
        """
        for at in self._course.before(("content", label, ""), upto, own):
            if at <= since or self._is_whole_since(label, at, upto):
                return None
            if (at, "") not in self._known and at not in told:
                return at
        return None

    def _missing_of(self, key: Key, *, items: bool, depth: int = 0) -> str:
        course = self._course
        at = key[0]
        record = course.records[at]
        # Given from outside, and not by a step of the program.
        if isinstance(record, schema.Call) and record.p == 0:
            return ""
        step = course.step_of[at]
        if step is None:
            return ""
        if step.folded:
            return "iterations ran here that are not recorded"
        if isinstance(record, schema.Return) and not any(isinstance(part.node, ast.Return) for part in step.parts):
            return self._missing_way(step)
        # A test has its outcome at its end, after the calls that it makes; a change is made at its record.
        upto = at if not isinstance(record, schema.Line) else self._end(step)
        # A container that is shown whole shows each item: a reader checks them one by one.
        cost = step.item_cost if items or step.at in self._items else step.cost
        if cost > MOST_OPERATIONS:
            return f"line {step.line} takes {cost} operations"
        return self._missing_reads(step, upto, depth) or self._missing_way(step, depth)

    def _end(self, step: Step) -> int:
        frame = self._course.frames[step.frame]
        return frame.steps[step.index + 1].at if step.index + 1 < len(frame.steps) else frame.end

    def _missing_reads(self, step: Step, upto: int, depth: int = 0) -> str:
        if step.reads is None:
            return f"what line {step.line} read"
        for read in step.reads:
            missing = self._missing_read(read, step, upto)
            if missing:
                return missing
        for at in step.given:
            if at < upto and (at, "") not in self._known:
                missing = self._missing_given(at, depth)
                if missing:
                    return missing
        return ""

    def _missing_given(self, at: int, depth: int) -> str:
        """Of a call whose result was not told: it may be passed on as it is."""
        course = self._course
        record = course.records[at]
        frame = course.frames[record.f]  # type: ignore[union-attr]
        name = frame.name.rpartition(".")[2]
        # A new object has no value to be told, but attributes, which are asked for themselves.
        if name == "__init__" or depth >= MOST_PASSED_ON:
            return "" if name == "__init__" else f"what `{name}` gave"
        missing = self._missing_of((at, ""), items=False, depth=depth + 1)
        return f"what `{name}` gave" if missing else ""

    def _missing_read(self, read: Read, step: Step, upto: int) -> str:
        course = self._course
        kind, owner, name = read.place
        if kind == "content":
            at = self._unknown_change(owner, upto, own=step)
            return "" if at is None else self._since(f"what is in {read.words}", " since", at)
        at = next(course.before(read.place, upto, step), None)
        if kind == "name":
            return "" if at is None or self._knows_name(at, name) else self._since(read.words, ", set by", at)
        if at is None or (at, "") in self._known or self._is_whole_since(owner, at, upto):
            return ""
        made = course.step_of[at]
        return read.words if made is None else f"{read.words} as line {made.line} left it"

    def _since(self, words: str, since: str, at: int) -> str:
        """Words with the line that a record belongs to, if it is known."""
        made = self._course.step_of[at]
        return words if made is None else f"{words}{since} line {made.line}"

    def _knows_name(self, at: int, name: str) -> bool:
        course = self._course
        if (at, name) in self._known or course.is_code(course.value(at, name)):
            return True
        record = course.records[at]
        if isinstance(record, schema.Call):
            # The object before the dot is known by its attributes.
            if next(iter(record.args), "") == name and name in ("self", "cls"):
                return True
            # An object that a told call was given is one that its caller had.
            return record.f in self._called and ref_of(record.args.get(name)) is not None
        return self._follows_from_program(at, name)

    def _follows_from_program(self, at: int, name: str) -> bool:
        """Return whether a name of the module was set by a line that needs nothing that is not in the program."""
        course = self._course
        step = course.step_of[at]
        if step is None or step.frame != course.module or course.entry is None:
            return False
        key = (at, name)
        if key not in self._implicit:
            # A name that needs itself does not follow: this is the answer for whoever asks meanwhile.
            self._implicit[key] = "is being looked at"
            self._implicit[key] = self._missing_of(key, items=True)
            if not self._implicit[key]:
                self._known.add(key)
                self._keep_whole(course.closures.get((key, at), ()), at)
        return not self._implicit[key]

    def _is_whole_since(self, label: int, at: int, upto: int) -> bool:
        whole = self._whole.get(label, ())
        place = bisect.bisect_left(whole, upto) - 1
        return place >= 0 and whole[place] >= at

    def _missing_way(self, step: Step, depth: int = 0) -> str:
        """A test on the way from the last told step that is neither told nor follows."""
        course = self._course
        # From the step back to the last told one of its frame, then on in its caller, as control came.
        for _ in range(50):
            frame = course.frames[step.frame]
            seen: set[int] = set()
            for index in range(step.index, max(-1, step.index - MOST_STEPS_BACK), -1):
                if (frame.number, index) in self._anchors:
                    return ""
                other = frame.steps[index]
                if other is step:
                    continue
                if other.folded:
                    return f"which way was taken in line {other.line}, which is not recorded"
                # Of several times that one test was made the last one decided; earlier ones matter where they could
                # have left.
                if not other.is_test or not other.decides(step, first=other.line not in seen):
                    continue
                seen.add(other.line)
                if (other.at, "") in self._known:
                    continue
                if other.cost > MOST_OPERATIONS or self._missing_reads(other, self._end(other), depth + 1):
                    return f"how {other.code} turned out"
            else:
                if step.index >= MOST_STEPS_BACK:
                    return "the way here"
            if frame.number in self._called or frame.number in (course.module, course.entry):
                return ""
            caller = course.step_of[frame.call]
            if caller is None:
                return ""
            step = caller
        return "the way here"

    def learn(self, claim: Stated, facts: Sequence[Fact], *, follows: bool) -> None:
        """Take in what a claim says."""
        course = self._course
        # What was cut is known whole only where a reader can work it out.
        shown = follows or ("…" not in claim.value and "<" not in claim.value)
        for fact in facts:
            if fact.value is not None and not _is_as_told(claim.value, course.texts.get((fact.key, fact.t), "")):
                continue
            if shown:
                self._known.add(fact.key)
                self._keep_whole(course.closures.get((fact.key, fact.t), ()), fact.t)
        for ref in claim.refs:
            if not 0 <= ref < len(course.records):
                continue
            record = course.records[ref]
            if isinstance(record, schema.Call):
                self._called.add(record.f)
            step = course.step_of[ref]
            if step is not None:
                # The text has been here, so that a reader knows that control came here.
                self._anchors.add((step.frame, step.index))
                if claim.kind == "condition" and step.parts and not step.is_test:
                    self._items.add(step.at)

    def _keep_whole(self, labels: Iterable[int], at: int) -> None:
        for label in labels:
            bisect.insort(self._whole.setdefault(label, []), at)


def _is_as_told(told: str, recorded: str) -> bool:
    """Return whether a told text is the recorded one, or the beginning of it up to where parts are left out."""
    if told == recorded or _AGAIN.fullmatch(told):
        return True
    head = told.partition("…")[0].partition("<")[0].rstrip(" ,'\"([{")
    return ("…" in told or "<" in told) and recorded.startswith(head[: len(recorded)])
