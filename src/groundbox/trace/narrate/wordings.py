"""Clauses about a name that took a value."""

from __future__ import annotations

from groundbox.trace.narrate.narration import ClaimKind
from groundbox.trace.narrate.reasons import Why
from groundbox.trace.narrate.telling import MAX_AGAIN, Telling, claim
from groundbox.trace.record import schema
from groundbox.trace.record.schema import V
from groundbox.trace.record.value import ref_of


class ValueClauses:
    """Says what names became."""

    def __init__(self, telling: Telling) -> None:
        self._telling = telling

    def say(self, ref: int, record: schema.Set, old: str | None, why: Why | None) -> None:
        """Say a `set` record.

        Args:
            old: The text of the value before, if there was one.
            why: How the new one came about, if that is known.
        """
        if self._telling.is_code(record.v) and (old is None or old.startswith("<")):
            return  # of a name that held something else it is told: `key` changes from None to a function
        telling = self._telling
        value = telling.text(record.v)
        text = self._text(f"`{record.name}`", record.v, value, old, why if not telling.is_code(record.v) else None)
        telling.draft.say(text, claim(ClaimKind.VALUE, [ref], record.f, record.name, value))

    def _text(self, name: str, held: V, value: str, old: str | None, why: Why | None) -> str:
        say = self._telling.voice.say
        if why is not None:
            if why.call is not None:
                again = len(value) > MAX_AGAIN and ref_of(held) is not None
                kind = "value.is_call.again" if again else "value.is_call"
                return say(
                    kind, name=name, call=why.call, value=value, thing=self._telling.thing(held) if again else ""
                )
            if why.alias is not None and ref_of(held) is not None:
                return say(
                    "value.same_object", name=name, thing=self._telling.thing(held), other=why.alias, value=value
                )
            if why.by is not None and why.result == value and old is not None:
                return say(
                    "value.grows" if why.sign == "+" else "value.falls", name=name, old=old, value=value, by=why.by
                )
            if why.chain is not None and (why.result is None or why.result == value) and len(value) < 200:
                return say("value.workings", name=name, workings=why.chain, value=value)
        if old is None:
            return say("value.first", name=name, value=value)
        if old == value:
            return say("value.stays", name=name, value=value)
        if len(old) < 20 and len(value) < 20:
            return say("value.changes", name=name, old=old, value=value)
        return say("value.new", name=name, value=value)
