"""Changes of objects in words: an item appended, a key that is new, an attribute that points elsewhere.

A change is noted before it is applied, while the old items can still be seen, and worded after the whole line,
since between two changes of one line there is no state that the program ever saw.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from groundbox.trace.narrate.paths import leads_to
from groundbox.trace.narrate.phrases import Voice, counted, row
from groundbox.trace.narrate.reasons import ValueReason
from groundbox.trace.record.schema import Mutate, V
from groundbox.trace.run.state import Obj, State, key_text

MAX_WHOLE: Final = 60
"""Characters of a container that is shown whole after a change of it."""
MAX_ITEM: Final = 60
"""Characters of one item."""
MAX_PLACES: Final = 4
"""Changed places that are told one by one."""


class Change(NamedTuple):
    """Words for a change.

    Attributes:
        subject: The object, or the place in it.
        value: What is new there, or went.
        ref: The record.
        why: How the new value came about, if the words say so.
    """

    text: str
    subject: str
    value: str
    ref: int
    why: ValueReason | None = None


class Place(NamedTuple):
    """Item, pair or attribute.

    Attributes:
        old: Its text before the change; None if there was none, or it is not known.
        key: Index, key or name.
        text: Of `new` once the change is made (`made`). What later records of the line make of it is told with them.
    """

    key: V
    key_text: str
    old: str | None
    new: V
    known_to_be_new: bool
    text: str = ""


@dataclass(frozen=True, kw_only=True)
class Note:
    """A change, with what has to be seen before it is applied.

    Attributes:
        texts: Of `items` once the change is made (`made`), as far as they may be told one by one.
    """

    ref: int
    label: int
    type: str
    op: str
    places: tuple[Place, ...] = ()
    items: tuple[V, ...] = ()
    texts: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    start: int = 0
    old_length: int = 0


def note(state: State, ref: int, record: Mutate) -> Note:
    """Look at an object that record number `ref` is about to change."""
    held = state.heap[record.id]
    places: tuple[Place, ...] = ()
    gone: tuple[str, ...] = ()
    if record.op == "set":
        places = tuple(_place(state, held, key, new) for key, new in record.at or ())
    elif record.op == "remove":
        gone = tuple(state.text(key, MAX_ITEM) if held.type == "dict" else str(key) for key in record.at or ())
    elif record.op == "discard":
        gone = tuple(state.text(item, MAX_ITEM) for item in record.items or ())
    elif record.op == "splice":
        gone = _removed(state, held, record)
    return Note(
        ref=ref,
        label=record.id,
        type=held.type,
        op=record.op,
        places=places,
        items=tuple(record.items or ()),
        gone=gone,
        start=record.start or 0,
        old_length=held.size,
    )


def made(state: State, change: Note) -> Note:
    """The same, with the texts of what is new; `state` has this change, and none after it."""
    places = tuple(place._replace(text=state.text(place.new, MAX_ITEM)) for place in change.places)
    texts = tuple(state.text(item, MAX_ITEM) for item in change.items[:MAX_PLACES])
    return replace(change, places=places, texts=texts)


def _place(state: State, held: Obj, key: V, new: V) -> Place:
    if held.type == "dict":
        assert held.pairs is not None
        pair = held.pairs.get(key_text(key))
        # A key that is not among the known ones may be among those that are not shown.
        old = None if pair is None else state.text(pair[1], MAX_ITEM)
        return Place(key, state.text(key, MAX_ITEM), old, new, pair is None and not held.unknown_pairs)
    if held.items is not None:
        item = held.items.get(key)
        return Place(key, str(key), None if item is None else state.text(item[0], MAX_ITEM), new, False)
    has = key in held.attrs
    old = state.text(held.attrs[key], MAX_ITEM) if has else None
    return Place(key, str(key), old, new, not has and not held.unknown_attrs)


def _removed(state: State, held: Obj, record: Mutate) -> tuple[str, ...]:
    assert held.items is not None
    start, count = record.start or 0, record.removed or 0
    found = [held.items.get(start + offset) for offset in range(min(count, MAX_PLACES))]
    # As many as went, without their texts: only the number is used.
    if count > MAX_PLACES or any(item is None for item in found):
        return ("",) * count
    return tuple(state.text(item[0], MAX_ITEM) for item in found if item is not None)


def worded(
    voice: Voice,
    state: State,
    notes: Sequence[Note],
    path: str,
    why: Mapping[str, ValueReason],
    *,
    later: Collection[int] = (),
    new: Collection[int] = (),
) -> tuple[list[Change], Change | None]:
    """Clauses about the changes of one object that a line made, and one about what the object is then.

    Of the changes of a line only the last state is one that the program is known to have had: a trace has them sorted,
    and not in the order in which they were made. So no clause says what an object was between two of them.

    Args:
        notes: The changes, which `state` already has.
        path: Code that leads to the object, without backticks.
        why: How the values of the line's targets came about, by the targets' code.
        later: Other objects that the line changed after this one.
        new: Objects that the line made: they were put where they are before they changed.

    Returns:
        The clauses, each with its change. The last one is None where they say what the object is, or it is long.
    """
    whole = _whole(state, notes[-1], path)
    # `ys.append(zs); zs.append(1)`: that `[]` was appended may never have been so.
    older = {*later} - {*new}
    if any(leads_to(state.heap, [*note.items, *(place.new for place in note.places)], older) for note in notes):
        return [whole], None
    is_final = not leads_to(state.heap, [{"ref": notes[0].label}], later)
    is_one = len(notes) == 1
    ends = is_final and not is_one and len(state.text({"ref": notes[0].label}, 10_000)) <= MAX_WHOLE
    found: list[Change] = []
    for note in notes:
        again = not is_final or ends or note is not notes[-1]
        found += _worded(voice, state, note, path, why, again=again)
    if not is_one and whole.text in (said.text for said in found):
        return [whole], None  # once, and not beside a change that led there
    return found, whole if ends else None


def _worded(
    voice: Voice, state: State, change: Note, path: str, why: Mapping[str, ValueReason], *, again: bool
) -> list[Change]:
    """Clauses about one change.

    Args:
        again: Whether the line has changed the object, or what is in it, once more.
    """
    if change.op == "set" and not _is_better_whole(state, change) and not _are_alike(state, change):
        return [_placed(voice, change, place, path, why) for place in change.places]
    if change.op == "splice":
        return [_spliced(voice, state, change, path, why, again=again)]
    if change.op in ("add", "discard", "remove"):
        return [_items(voice, state, change, path, again=again)]
    return [_whole(state, change, path)]


def _are_alike(state: State, change: Note) -> bool:
    """Return whether a key of a dict is written as another one is, so that its item cannot be named."""
    cut = [place.key_text for place in change.places if "<" in place.key_text or "…" in place.key_text]
    if change.type != "dict" or not cut:
        return False
    texts = [state.text(key, MAX_ITEM) for key, _ in (state.heap[change.label].pairs or {}).values()]
    return any(texts.count(text) > 1 for text in cut)


def _is_better_whole(state: State, change: Note) -> bool:
    """Return whether items by the row changed, as when a list is reversed or a deque turned."""
    if change.type in ("object", "class") or (len(change.places) <= 2 and change.type != "deque"):
        return len(change.places) > 2 * MAX_PLACES
    return len(change.places) > MAX_PLACES or len(state.text({"ref": change.label}, 10_000)) <= MAX_WHOLE


def _placed(voice: Voice, change: Note, place: Place, path: str, whys: Mapping[str, ValueReason]) -> Change:
    subject = f"{path}.{place.key_text}" if change.type in ("object", "class") else f"{path}[{place.key_text}]"
    value = place.text
    # Texts that are cut may be alike where the values are not.
    if place.old == value and "…" not in value and "<" not in value:
        return Change(voice.say("item.same", name=f"`{subject}`", value=value), subject, value, change.ref)
    why = whys.get(subject)
    if why is not None and why.by is not None and why.result == value and place.old is not None:
        kind = "value.grows" if why.sign == "+" else "value.falls"
        text = voice.say(kind, name=f"`{subject}`", old=place.old, value=value, by=why.by)
        return Change(text, subject, value, change.ref, why)
    if why is not None and why.chain is not None and why.result == value:
        text = voice.say("value.workings", name=f"`{subject}`", workings=why.chain, value=value)
        return Change(text, subject, value, change.ref, why)
    if place.old is None or place.old == value:
        kind = "item.new" if change.type == "dict" and place.known_to_be_new else "value.new"
        return Change(voice.say(kind, name=f"`{subject}`", value=value), subject, value, change.ref)
    text = voice.say("value.changes", name=f"`{subject}`", old=place.old, value=value)
    return Change(text, subject, value, change.ref)


def _spliced(
    voice: Voice, state: State, change: Note, path: str, whys: Mapping[str, ValueReason], *, again: bool
) -> Change:
    new = list(change.texts)
    # A splice says where; whether it was an append or a pop is seen by the old length.
    at_end = change.start + len(change.gone) == change.old_length
    now = _NOTHING if again else _now(state, change.label)
    where = f"`{path}`"
    if len(change.items) == 1 and not change.gone:
        # The end first: an item put into an empty list is appended.
        kind = "append" if at_end else "prepend" if change.start == 0 else "insert"
        item = new[0]
        why = whys.get(f"{path}.append") if kind == "append" else None
        why = why if why is not None and why.chain is not None and why.result == item else None
        item = item if why is None else f"{why.chain} = {item}"
        text = voice.say(f"list.{kind}", item=item, name=where, index=str(change.start), **now)
        return Change(text, path, new[0], change.ref, why)
    if len(change.gone) == 1 and change.gone[0] and not change.items:
        kind = "pop" if at_end else "pop_first" if change.start == 0 else "pop_at"
        kind = "pop_only" if change.old_length == 1 else kind
        text = voice.say(f"list.{kind}", item=change.gone[0], name=where, index=str(change.start), **now)
        return Change(text, path, change.gone[0], change.ref)
    if not change.gone and at_end and 1 < len(change.items) <= MAX_PLACES:
        items = ", ".join(new)
        return Change(
            voice.say("list.extend", items=row(new, ", ", " and "), name=where, **now), path, items, change.ref
        )
    return _whole(state, change, path)


def _items(voice: Voice, state: State, change: Note, path: str, *, again: bool) -> Change:
    now = _NOTHING if again else _now(state, change.label)
    if len(change.gone or change.items) > MAX_PLACES:
        return _whole(state, change, path)
    texts = list(change.gone or change.texts)
    if change.type == "dict":
        kind = "dict.remove"
    elif change.type in ("object", "class"):
        return Change(f"the attribute `{path}.{texts[0]}` is deleted", path, ", ".join(texts), change.ref)
    else:
        kind = f"set.{change.op}"
    kind += ".several" if len(texts) > 1 else ""
    text = voice.say(kind, item=row(texts, ", ", " and "), name=f"`{path}`", **now)
    return Change(text, path, ", ".join(texts), change.ref)


def _whole(state: State, change: Note, path: str) -> Change:
    value = state.text({"ref": change.label}, 2 * MAX_WHOLE)
    return Change(f"`{path}` is now {value}", path, value, change.ref)


_NOTHING: Final = {"which": "", "and_": ""}


def _now(state: State, label: int) -> dict[str, str]:
    """Return what is there now, if that is short, or how much it is: `, which is now [1]` and ` and is now [1]`."""
    text = state.text({"ref": label}, 10_000)
    is_short = len(text) <= MAX_WHOLE
    present = f"is now {text}" if is_short else f"now has {counted(state.heap[label].size, 'item')}"
    return {"which": f", which {present}", "and_": f" and {present}"}
