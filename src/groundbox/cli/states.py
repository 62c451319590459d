"""`%undo`, `%checkpoint`, `%fork` and their like at the prompt: states of its sandbox that are kept, and its branches.

The state before each cell is kept together with the cell, so that who goes back is told what is taken back. Going back
to a named checkpoint is a step like a cell, and `%undo` takes it back, too. A state that could not be kept, because
something in the sandbox cannot go along, leaves a gap with its reason; the session goes on.

The sandbox could keep the states before its runs by itself. It would count what the prompt runs for its own sake, such
as the completion of a name, and it knows nothing of cells.

A branch is a sandbox of its own with states of its own. Names are unique among all checkpoints and branches.
"""

from __future__ import annotations

import collections
import dataclasses
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from groundbox.cli.cells import COMMANDS, Command
from groundbox.cli.terminal import one_line
from groundbox.errors import CheckpointLost, SandboxBusy, SandboxLost
from groundbox.execution import Execution, Warning

if TYPE_CHECKING:
    from groundbox.sandbox.branching import Checkpoint
    from groundbox.sandbox.portal import Sandbox

FIRST: Final = "main"
_NAME: Final = re.compile(r"[\w.-]{1,40}")
_MOST_SHOWN: Final = 48
_HOW: Final = "this prompt keeps no states; `groundbox repl --undo` does, from its first cell on"
_AFTER_ALL: Final = "%undo takes back what was done before that"
_ADVICE: Final = {"javascript": f"The state of JavaScript cells cannot be copied; {_AFTER_ALL}"}
_USUAL_ADVICE: Final = "End or close that in a cell, and states are kept again"
_OF_A_LIBRARY: Final = re.compile(r"\bthreads of a library\b")
_FULL: Final = re.compile(r"checkpoints of it are kept")
_TOO_LARGE: Final = re.compile(r"\bmore than its limit\b")


class Keeping(NamedTuple):
    """How a prompt was asked to keep states: how many before the last cells, and whether a failed cell is undone."""

    undo: int
    rollback: bool


class Told(NamedTuple):
    """Answer to a command: whether it was done, words about it, and what was asked to be listed."""

    done: bool
    words: str
    listed: tuple[str, list[dict[str, Any]]] | None = None

    def lines(self) -> Iterator[str]:
        """For people."""
        yield f"groundbox: {one_line(self.words)}"
        if self.listed and self.listed[1]:
            yield from _table(self.listed[1])

    def to_dict(self, command: Command) -> dict[str, Any]:
        """For programs."""
        listed = {self.listed[0]: self.listed[1]} if self.listed else {}
        return {"command": command.name, "done": self.done, "message": self.words, **listed}


class _Refused(Exception):
    """A command cannot be meant, or not now; the message says why."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Step:
    """A cell, or a going back, with the state before it.

    Attributes:
        state: None where it was not kept; `why` then says what was in the way.
        words: The cell's own text, or the command.
        former: The cell that had run last in that state.
        at_s: When, by the monotonic clock.
    """

    state: Checkpoint | None
    why: str
    words: str
    former: str
    at_s: float

    @property
    def missing(self) -> str:
        """Why it cannot be gone back to; empty as long as it can."""
        return self.why if self.state is None else self.state.lost


class _Saved(NamedTuple):
    """A checkpoint that has a name."""

    state: Checkpoint
    former: str
    at_s: float


class Branch:
    """One sandbox of the prompt, and the states of it that are kept.

    Attributes:
        is_lost: Whether its process has ended, so that the next cell begins in a fresh one.
        is_prepared: Whether `input()` of its process asks the prompt.
        former: The cell that ran last; empty before the first one.
    """

    def __init__(self, name: str, box: Sandbox, *, undo: int, former: str = "") -> None:
        self.name, self.box, self.former = name, box, former
        self.is_lost = self.is_prepared = False
        self.steps: collections.deque[_Step] = collections.deque(maxlen=undo)
        self.saved: dict[str, _Saved] = {}
        self.latest: _Step | None = None
        self.told = ""

    def be_back(self, former: str) -> None:
        """It has gone back to a state, all of which are of a living process."""
        self.is_lost, self.is_prepared, self.former = False, True, former


class States:
    """The branches of a prompt, one of which is active, and what its commands do with them."""

    def __init__(self, box: Sandbox, keeping: Keeping | None, *, language: str, make_ready: Callable[[], None]) -> None:
        """Args:
        keeping: None where the sandbox was not made to be copied.
        make_ready: Lets the active branch have a process in which a cell could run.
        """
        self._keeping, self._language, self._make_ready = keeping, language, make_ready
        self._undo = keeping.undo if keeping else 0
        self.here = Branch(FIRST, box, undo=self._undo)
        self._branches = {FIRST: self.here}

    def close(self) -> None:
        """End every branch. Idempotent."""
        for each in self._branches.values():
            each.box.close()

    def before_cell(self, source: str) -> str:
        """Keep the state that a cell begins with; words about what is in the way, once for each reason.

        Raises:
            SandboxLost: The process has ended between two cells.
        """
        here = self.here
        if self._keeping is None or not (self._undo or self._keeping.rollback):
            return ""
        step = here.latest = self._step(source)
        here.steps.append(step)
        former, here.told = here.told, step.why
        if not step.why or step.why == former:
            return ""
        return f"the state before this cell is not kept ({one_line(step.why)}). {self._advice(step.why)}"

    def never_ran(self) -> None:
        """The cell whose state was kept has not begun."""
        here = self.here
        if here.latest is not None and here.steps and here.steps[-1] is here.latest:
            here.steps.pop()
        here.latest = None

    def after_cell(self, source: str, *, failed: bool) -> Warning | None:
        """Note that a cell has run, and go back where it failed and that was asked for; what became of that."""
        here = self.here
        step, here.latest = here.latest, None
        if not failed or self._keeping is None or not self._keeping.rollback:
            here.former = source
            return None
        why = "it could not be copied" if step is None else step.missing
        if step is not None and step.state is not None and not why:
            try:
                here.box.restore(step.state)
            except (CheckpointLost, SandboxLost) as lost:
                why = lost.why
            except OSError as error:
                why = f"going back could not begin: {error.strerror}"
            else:
                here.be_back(step.former)
                if here.steps and here.steps[-1] is step:
                    here.steps.pop()
                step.state.drop()
                words = "variables and files are as they were before this cell"
                return Warning(code="session.rolled_back", tier="note", message=words)
        here.former = source
        words = f"the state before this cell is not there: {why}"
        return Warning(code="session.not_rolled_back", tier="note", message=words)

    def way_back(self) -> str:
        """How a cell that has ended the process can be taken back; empty where it cannot."""
        steps = self.here.steps
        return "; %undo has both back as they were before this cell" if steps and not steps[-1].missing else ""

    def carry_out(self, command: Command) -> Told:
        """Do what a command says, and tell."""
        if self._keeping is None:
            return Told(False, _HOW)
        try:
            words = self._done(command)
        except _Refused as refused:
            return Told(False, str(refused))
        except SandboxBusy as busy:
            return Told(False, f"not done, because it cannot be copied now: {busy.why}. {self._advice(busy.why)}")
        except CheckpointLost as lost:
            return Told(False, f"not done, because that state is gone: {lost.why}. %checkpoints lists what is there")
        except SandboxLost as lost:
            self.here.is_lost = True
            return Told(False, f"{lost.why}; the next cell runs in a fresh process with the same files")
        except OSError as error:
            return Told(False, f"not done, because this host refuses: {error.strerror}")
        return words if isinstance(words, Told) else Told(True, words)

    def completions(self, line: str) -> list[str]:
        """Whole lines that the beginning of a command may become."""
        taking: dict[str, Iterable[str]] = {"restore": self.here.saved, "switch": self._branches, "drop": self._names()}
        ready = [f"%{command} {name}" for command, names in taking.items() for name in names]
        if " " not in line:
            ready = [f"%{name}" + (" " if name in taking else "") for name in COMMANDS]
        return [each for each in ready if self._keeping and line.startswith("%") and each.startswith(line)]

    def _done(self, command: Command) -> str | Told:
        if not _fits(command):
            usage = f"%{command.name} {COMMANDS[command.name]}".rstrip()
            raise _Refused(f"it is written {usage}, without {command.argument!r}")
        match command.name:
            case "undo":
                return self._do_undo(command.argument)
            case "checkpoint":
                return self._do_checkpoint(command.argument)
            case "checkpoints":
                return self._do_checkpoints()
            case "restore":
                return self._do_restore(command.argument)
            case "drop":
                return self._do_drop(command.argument)
            case "fork":
                return self._do_fork(command.argument)
            case "switch":
                return self._do_switch(command.argument)
            case "branches":
                return self._do_branches()
        raise AssertionError("every command of COMMANDS is carried out")

    def _do_undo(self, text: str) -> str:
        here = self.here
        if not self._undo:
            raise _Refused("no states before cells are kept; `groundbox repl --undo` keeps them")
        count = int(text or 1) if re.fullmatch(r"[0-9]{0,4}", text) else 0
        if count < 1:
            raise _Refused(f"%undo takes how many cells to take back, not {text!r}")
        if not here.steps:
            raise _Refused("there is nothing to take back")
        if count > len(here.steps):
            raise _Refused(f"{_counted(len(here.steps), 'cell')} can be taken back, and not {count}")
        step = here.steps[-count]
        if step.state is None or step.missing:
            raise _Refused(f"the state before {_quoted(step.words)} is not there: {step.missing}{self._further(count)}")
        here.box.restore(step.state)
        taken = [here.steps.pop() for _ in range(count)]
        here.be_back(step.former)
        for each in taken:
            if each.state is not None:
                each.state.drop()
        return f"as before {_quoted(step.words)}" + (f"; {count} cells are taken back" if count > 1 else "")

    def _further(self, count: int) -> str:
        """What can be gone back to instead of the count-th last state."""
        numbered = enumerate(reversed(self.here.steps), 1)
        found = [number for number, each in numbered if number > count and not each.missing]
        return f". %undo {found[0]} goes back further" if found else ""

    def _do_checkpoint(self, name: str) -> str:
        name = self._free(name, "{}")
        self._make_ready()
        self.here.saved[name] = _Saved(self.here.box.checkpoint(), self.here.former, time.monotonic())
        return f"kept as {name}; %restore {name} goes back to it"

    def _do_restore(self, name: str) -> str:
        here = self.here
        saved = here.saved.get(name)
        if saved is None:
            raise _Refused(self._unknown_checkpoint(name))
        if saved.state.lost:
            raise CheckpointLost(saved.state.lost)
        step = self._step_back(f"%restore {name}") if self._undo else None
        here.box.restore(saved.state)
        here.be_back(saved.former)
        if step is not None:
            here.steps.append(step)
        return f"as it was at {name}, {_age(saved.at_s)} ago"

    def _unknown_checkpoint(self, name: str) -> str:
        for each in self._branches.values():
            if name in each.saved:
                return f"{name} is a checkpoint of the branch {each.name}; %switch {each.name} first"
        if not name:
            return f"%restore takes the name of a checkpoint{_there_is(self.here.saved)}"
        return f"there is no checkpoint {name!r}{_there_is(self.here.saved)}"

    def _do_checkpoints(self) -> Told:
        rows: list[dict[str, Any]] = []
        for branch in self._branches.values():
            where = {"branch": branch.name} if len(self._branches) > 1 else {}
            for name, saved in branch.saved.items():
                rows.append({**_row(name, saved.at_s, saved.former, saved.state.lost), **where})
            if branch is self.here:
                for number, step in enumerate(reversed(branch.steps), 1):
                    rows.append({**_row(f"%undo {number}", step.at_s, step.former, step.missing), **where})
        return Told(True, _counted(len(rows), "state"), ("checkpoints", rows))

    def _do_drop(self, name: str) -> str:
        for each in self._branches.values():
            if name in each.saved:
                each.saved.pop(name).state.drop()
                return f"the checkpoint {name} is dropped"
        branch = self._branches.get(name)
        if branch is None:
            what = f"there is no checkpoint and no branch {name!r}" if name else "%drop takes a name"
            raise _Refused(f"{what}{_there_is(self._names())}")
        if branch is self.here:
            raise _Refused(f"{name} is the branch that is active; %switch to another one first")
        del self._branches[name]
        branch.box.close()
        return f"the branch {name} is dropped, with its states"

    def _do_fork(self, name: str) -> str:
        name, here = self._free(name, "fork-{}"), self.here
        self._make_ready()
        (box,) = here.box.fork(1)
        self.here = self._branches[name] = Branch(name, box, undo=self._undo, former=here.former)
        self.here.is_prepared = True
        return f"the branch {name} begins with the state of {here.name}, and is active; %switch {here.name} leaves it"

    def _do_switch(self, name: str) -> str:
        branch = self._branches.get(name)
        if branch is None:
            what = f"there is no branch {name!r}" if name else "%switch takes the name of a branch"
            raise _Refused(f"{what}{_there_is(self._branches)}")
        self.here = branch
        return f"the branch {name} is active" + (f", after {_quoted(branch.former)}" if branch.former else "")

    def _do_branches(self) -> Told:
        rows = [
            {"active": each is self.here, "name": each.name, "last_cell": _first_line(each.former)}
            for each in self._branches.values()
        ]
        return Told(True, _counted(len(rows), "branch"), ("branches", rows))

    def _free(self, name: str, pattern: str) -> str:
        """The name, or one that nothing has yet."""
        taken = self._names()
        if not name:
            return next(each for each in map(pattern.format, range(1, len(taken) + 2)) if each not in taken)
        if not _NAME.fullmatch(name):
            raise _Refused(f"a name has at most 40 letters, digits, dots, - and _, not {name!r}")
        if name in taken:
            raise _Refused(f"{name} is there already; %drop {name} first, or take another name")
        return name

    def _names(self) -> list[str]:
        return [*self._branches, *(name for each in self._branches.values() for name in each.saved)]

    def _step(self, words: str) -> _Step:
        """The state of this moment, as one before a cell or a command."""
        here, now = self.here, time.monotonic()
        state, why = None, ""
        if here.is_lost:
            why = "the process had ended"
        else:
            try:
                state = here.box.checkpoint()
            except SandboxBusy as busy:
                why = busy.why
            except OSError as error:
                why = f"this host refuses: {error.strerror}"
        return _Step(state=state, why=why, words=words, former=here.former, at_s=now)

    def _step_back(self, words: str) -> _Step:
        """The same before going back, for which no process is needed."""
        try:
            return self._step(words)
        except SandboxLost:
            self.here.is_lost = True
            return self._step(words)

    def _advice(self, why: str) -> str:
        if _FULL.search(why):
            return "%drop gives some back"
        if _TOO_LARGE.search(why):
            return "Delete what is not needed, or start with a larger --memory-mib"
        if self._language not in _ADVICE and _OF_A_LIBRARY.search(why):
            return f"A library keeps them until the process ends; {_AFTER_ALL}"
        return _ADVICE.get(self._language, _USUAL_ADVICE)


def with_warning(execution: Execution, warning: Warning) -> Execution:
    """The result of a cell after which the prompt has tried to go back."""
    state = "kept" if warning.code == "session.rolled_back" else execution.state
    return dataclasses.replace(execution, state=state, warnings=(*execution.warnings, warning))


def _fits(command: Command) -> bool:
    words = len(command.argument.split())
    return words <= (1 if COMMANDS[command.name] else 0)


def _row(name: str, at_s: float, former: str, missing: str) -> dict[str, Any]:
    row = {"name": name, "age_s": round(time.monotonic() - at_s, 1), "last_cell": _first_line(former)}
    return {**row, "missing": missing} if missing else row


def _table(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Rows for people, each beginning with a mark of what is active."""
    cells = [[_shown(row, column) for column in _COLUMNS if any(column in each for each in rows)] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        yield "    " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


_COLUMNS: Final = ("active", "name", "branch", "age_s", "last_cell", "missing")


def _shown(row: Mapping[str, Any], column: str) -> str:
    value = row.get(column, "")
    if column == "active":
        return "*" if value else " "
    if column == "age_s":
        return f"{_seconds(value)} ago"
    if column == "last_cell":
        return f"after {_quoted(value)}" if value else "before any cell"
    return f"NOT THERE: {one_line(value)}" if column == "missing" and value else str(value)


def _first_line(source: str) -> str:
    """The first line of a cell that says anything, as much as can be shown."""
    lines = [line.strip() for line in source.splitlines() if line.strip()]
    first = one_line(lines[0]) if lines else ""
    return first[:_MOST_SHOWN] + (" …" if len(first) > _MOST_SHOWN or len(lines) > 1 else "")


def _quoted(source: str) -> str:
    return f"`{_first_line(source)}`"


def _age(at_s: float) -> str:
    return _seconds(time.monotonic() - at_s)


def _seconds(seconds: float) -> str:
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def _counted(count: int, noun: str) -> str:
    if count == 0:
        return f"no {noun}"
    return f"{count} {noun}" + ("" if count == 1 else "es" if noun.endswith("ch") else "s")


def _there_is(names: Iterable[str]) -> str:
    known = ", ".join(names)
    return f"; there is: {known}" if known else ", and none is kept"
