"""Tests and iterations: which way a conditional jump went, told, or only counted while a fold lasts.

`branched` comes from a core for each planned jump (`branches.Branch`), `_comes_to_head` from the line events of loops
without a test. A test is told at once, in the middle of its line. The iteration of a `while` is told with the test that
began it; that of a `for` before the next line, when its item has been assigned; if the body is on the header's line, at
once and without the item. A loop that found no further item, or its condition false, is told as `ended`.

While a fold lasts, iterations are only counted, in the folded frame and in generators that go on inside it, so that
numbers are right when something is recorded again.
"""

from __future__ import annotations

import types

from .branches import BEGINS, ENDS, NOTHING, TAKES, Branch
from .folding import Folds
from .frames import State
from .own import protect

protect(globals())


class Iterations(Folds):
    """The part of a recorder that tells tests and iterations."""

    def branched(self, frame: types.FrameType, state: State, branch: Branch, *, jumped: bool) -> None:
        """A conditional jump went one way."""
        truth, does = branch.jumps if jumped else branch.falls
        if self.fold is not None:
            if does != NOTHING:
                self._count(state, branch.loop, does)
                state.begins = -1
                if self.fold.key == id(frame) and state.code.branches.loops[branch.loop].line == self.fold.header:
                    self.fold.ended = branch.loop if does == ENDS else -1
            return
        if self.resting is not None:
            self._leave_fold(frame)
        if self._printed.texts or self._heap.described:
            self._begin()
        if does != NOTHING and state.begins >= 0:
            self._tell_item(state, frame)
        if truth is not None:
            told = "true" if truth else "false"
            self._more(f'{{"k":"test","f":{state.f},"at":[{branch.at}],"v":{told}}}\n')
        if does != NOTHING:
            self._count(state, branch.loop, does)
            if does == ENDS:
                self._more(self._ended_record(state, branch.loop))
            elif does == BEGINS:
                self._more(f"{self._iteration_record(state, branch.loop)}}}\n")
        self._memory.commit()

    def _count(self, state: State, loop: int, does: int) -> None:
        """Count an iteration that begins; the loops inside it begin anew."""
        state.begins = loop if does == TAKES else -1
        if does != ENDS:
            counts = state.counts
            counts[loop] += 1
            for inner in range(loop + 1, loop + 1 + state.code.branches.loops[loop].inner):
                counts[inner] = 0

    def _is_in_header(self, state: State, number: int) -> bool:
        """Whether a line is still part of the header whose item is being assigned."""
        loop = state.code.branches.loops[state.begins]
        return loop.line < loop.header_last and loop.line <= number <= loop.header_last

    def _tell_item(self, state: State, frame: types.FrameType) -> None:
        """The iteration that begins after its item was assigned."""
        loop, state.begins = state.begins, -1
        names = state.code.targets[loop]
        rest = ""
        values = self._values_of(names, frame)
        if names and len(values) == len(names):
            rest = f',"items":[{",".join(self._text(value) for value in values)}]'
        self._more(f"{self._iteration_record(state, loop)}{rest}}}\n")

    def pass_line(self, frame: types.FrameType, offset: int) -> None:
        """A line event of a frame, perhaps one that is recorded, while a fold lasts."""
        state = self.states.get(id(frame))
        if state is not None and state.code.code is frame.f_code:
            for loop in self._heads(state, offset):
                self._count(state, loop, BEGINS)

    def _heads(self, state: State, offset: int) -> tuple[int, ...]:
        """The loops without a test of which an iteration begins with this line event."""
        source, state.source = state.source, 0
        return state.code.branches.heads.get(offset, ())[source:]

    def _tell_heads(self, state: State, heads: tuple[int, ...]) -> None:
        for loop in heads:
            self._count(state, loop, BEGINS)
            self._more(f"{self._iteration_record(state, loop)}}}\n")

    def _iteration_record(self, state: State, loop: int) -> str:
        line = state.code.branches.loops[loop].line
        return f'{{"k":"iteration","f":{state.f},"n":{line},"number":{state.counts[loop]}'
