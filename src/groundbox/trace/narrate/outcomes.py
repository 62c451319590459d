"""Calls that are told only by what came of them: a value, and what their caller can see changed."""

from __future__ import annotations

from groundbox.trace.narrate.gaps import Before, Gaps, Said, is_now
from groundbox.trace.narrate.narration import Claim, ClaimKind
from groundbox.trace.narrate.telling import Telling, Where, claim, listed
from groundbox.trace.narrate.titles import call_text
from groundbox.trace.record import schema
from groundbox.trace.record.value import ref_of
from groundbox.trace.run.structure import Activation
from groundbox.values.unknown import Unknown


class Outcomes:
    """Tells calls by their results."""

    def __init__(self, telling: Telling) -> None:
        self._telling = telling
        self._gaps = Gaps(telling)

    def tell(self, activation: Activation, where: Where) -> None:
        """Go to the end of a call, and tell what came of it."""
        telling = self._telling
        telling.advance(activation.first)
        call = call_text(self._telling, activation)
        frame = where.activation.frame
        touched, names = self._touched(activation)
        before = self._gaps.look(frame, touched)
        outer = {name: self._outer(frame, name) for name in names}
        descent = self._descent(activation) if activation.outcome == "return" else None
        telling.advance(activation.last)
        if activation.outcome == "unwind":
            self._say_exception(activation, call)
        elif activation.name.endswith(".__init__"):
            self._tell_made(activation)
        elif activation.outcome == "return":
            self._say_result(activation, call, before, where, outer, descent)

    def _say_exception(self, activation: Activation, call: str) -> None:
        """The exception that left a call: the last that came up in it, or came into it."""
        records = self._telling.trace.records
        for ref in range(activation.last, activation.first, -1):
            record = records[ref]
            if isinstance(record, schema.Raise) and record.f == activation.frame:
                value = self._telling.exception(record)
                told = claim(
                    ClaimKind.EXCEPTION, [ref, activation.last], activation.frame, activation.short_name, value
                )
                self._telling.draft.say(f"{call} raises {value}", told)
                return
        self._telling.draft.say(f"{call} raises an exception", unwound(activation))

    def _say_result(
        self,
        activation: Activation,
        call: str,
        before: Before,
        where: Where,
        outer: dict[str, str | None],
        descent: Said | None,
    ) -> None:
        """What a call returned, and what it changed that its caller can see.

        Args:
            before: The caller's objects when it began.
            outer: Names of enclosing functions or of the module that it set, with what they were.
            descent: How far down a recursion went.
        """
        if descent is not None:
            self._telling.draft.say(descent.text, descent.claim)
        changed = self._changed(activation, before, where.activation.frame, outer)
        if where.quiet and not changed and descent is None:
            return
        telling = self._telling
        value = telling.text(activation.value)
        refs = [activation.first, activation.last]
        told = claim(ClaimKind.RETURN, refs, activation.frame, activation.short_name, value)
        text = telling.voice.say("call.result", call=call, value=value)
        if changed:
            state = listed([said.text for said in changed])
            text = telling.voice.say(_leaving(activation, descent), call=call, value=value, state=state)
        telling.draft.say(text, told, *(said.claim for said in changed))

    def _changed(self, activation: Activation, before: Before, frame: int, outer: dict[str, str | None]) -> list[Said]:
        others = [name for name in self._telling.state.names(frame) if name not in before.names]
        changed = self._gaps.after(before, frame, activation.first, activation.last, but=others)
        return changed + self._outer_changes(frame, outer, activation)

    def _touched(self, activation: Activation) -> tuple[set[int | None], list[str]]:
        """Objects that were given to a call or changed in it, and names of others that it set."""
        touched: set[int | None] = {ref_of(value) for value in activation.args.values()} - {None}
        names: dict[str, None] = {}
        for record in self._telling.trace.records[activation.first : activation.last + 1]:
            if isinstance(record, schema.Mutate):
                touched.add(record.id)
            elif isinstance(record, schema.Set) and record.scope is not None:
                names[record.name] = None
        return touched, list(names)

    def _outer(self, frame: int, name: str) -> str | None:
        """What a name means to a frame, if it is known."""
        try:
            return self._telling.text(self._telling.state.lookup(frame, name), 60)
        except (KeyError, Unknown):
            return None

    def _outer_changes(self, frame: int, outer: dict[str, str | None], activation: Activation) -> list[Said]:
        said = []
        for name, before in outer.items():
            now = self._outer(frame, name)
            if now is not None and now != before:
                said.append(is_now(name, now, [activation.last], frame))
        return said

    def _descent(self, activation: Activation) -> Said | None:
        """How far down a recursion goes that is not told, and what its base case gives at that moment."""
        telling = self._telling
        leaf = _leaf(activation)
        if leaf is None or leaf.outcome != "return":
            return None
        telling.advance(leaf.last)
        value = telling.text(leaf.value)
        text = telling.voice.say("call.down", call=call_text(self._telling, leaf, past=True), value=value)
        refs = [leaf.first, leaf.last]
        return Said(text, claim(ClaimKind.RETURN, refs, leaf.frame, leaf.short_name, value, said=text))

    def _tell_made(self, activation: Activation) -> None:
        telling = self._telling
        made = next(iter(activation.args.values()), None)
        if ref_of(made) is None:
            return
        text = telling.text(made, 80)
        told = claim(ClaimKind.CALL, [activation.first, activation.last], activation.frame, activation.short_name, text)
        telling.draft.say(telling.voice.say("call.made", value=text), told)


def _leaving(activation: Activation, descent: Said | None) -> str:
    """How to word what a call changed. One that was gone down already does not run now."""
    if activation.value is not None:
        return "call.leaves.value"
    return "call.leaves" if descent is None else "call.leaves.back"


def _leaf(activation: Activation) -> Activation | None:
    """Where the chain of calls of a function by itself ends, if there is one and it is a long one."""
    at, length = activation, 0
    while True:
        inner = next((call for step in at.steps() for call in step.calls if call.name == activation.name), None)
        if inner is None:
            break
        at, length = inner, length + 1
    return at if length > 1 else None


def unwound(activation: Activation) -> Claim:
    """The claim that an exception left a call."""
    return claim(ClaimKind.EXCEPTION, [activation.last], activation.frame, activation.short_name, "unwound")
