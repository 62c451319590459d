"""The `object` record of an object, and the fields that a `replace` shares with it."""

from __future__ import annotations

from typing import Any

from .classes import ARRAY, BYTES, CLASS, DICT, LIST, OBJECT, SET, deque, json_text, type_qualname
from .contents import Contents, deque_maxlen, shown_items
from .own import protect
from .values import Values

protect(globals())

MANY, HEAD, TAIL = 200, 150, 20
_MANY_BYTES = 200


def object_record(entry: Any, value: Any, contents: Contents, values: Values) -> str:
    """The record that describes a new object."""
    return f"{_opening(entry, value)}{fields(entry.kind, value, contents, values)}}}\n"


def stub_record(entry: Any, value: Any, contents: Contents) -> str:
    """The record of an object beyond the number that one event may describe: nothing shown, all counted."""
    what = entry.kind.kind
    if what in (BYTES, ARRAY):
        shown, count = ',"items":[]', len(value)
    else:
        word = {DICT: '"pairs":[]', OBJECT: '"attrs":{}', CLASS: '"attrs":{}'}.get(what, '"items":[]')
        shown, count = f",{word}", len(contents.items)
    return f'{_opening(entry, value)}{shown},"elided":{count}}}\n'


def _opening(entry: Any, value: Any) -> str:
    kind = entry.kind
    name = json_text(type_qualname(value)) if kind.kind == CLASS else kind.name
    told = "" if name is None else f',"class":{name}'
    return f'{{"k":"object","id":{entry.label},"type":"{kind.word}"{told}'


def fields(kind: Any, value: Any, contents: Contents, values: Values) -> str:
    """The contents as fields, each with a comma before it."""
    what = kind.kind
    if what == LIST:
        shown = _items(contents.items, values)
        if kind.base is deque:
            maxlen = deque_maxlen(value)
            shown += "" if maxlen is None else f',"maxlen":{maxlen}'
    elif what == DICT:
        shown = _pairs(contents, values)
    elif what == SET:
        shown = _set(contents.items, values)
    elif what == BYTES:
        data = contents.items[0]
        return f',"hex":"{data[:_MANY_BYTES].hex()}","len":{len(data)}'
    elif what == ARRAY:
        return _array(value, contents, values)
    else:
        return _attributes(contents, values)
    return shown if contents.extra is None else shown + _attributes(contents.extra, values)


def _items(items: list[Any], values: Values) -> str:
    if len(items) <= MANY:
        return f',"items":[{values.several(items)}]'
    head, tail = values.several(items[:HEAD]), values.several(items[-TAIL:])
    return f',"items":[{head}],"tail":[{tail}],"elided":{len(items) - HEAD - TAIL}'


def _pairs(contents: Contents, values: Values) -> str:
    assert contents.keys is not None
    pairs = list(zip(contents.keys, contents.items, strict=True))
    if len(pairs) <= MANY:
        return f',"pairs":[{_pair_texts(pairs, values)}]'
    head, tail = _pair_texts(pairs[:HEAD], values), _pair_texts(pairs[-TAIL:], values)
    return f',"pairs":[{head}],"tail":[{tail}],"elided":{len(pairs) - HEAD - TAIL}'


def _pair_texts(pairs: list[tuple[Any, Any]], values: Values) -> str:
    text = values.text
    return ",".join([f"[{text(key)},{text(item)}]" for key, item in pairs])


def _set(items: list[Any], values: Values) -> str:
    texts = sorted([values.text(item) for item in items])
    if len(texts) <= MANY:
        return f',"items":[{",".join(texts)}]'
    head, tail = ",".join(texts[:HEAD]), ",".join(texts[-TAIL:])
    return f',"items":[{head}],"tail":[{tail}],"elided":{len(texts) - HEAD - TAIL}'


def _attributes(contents: Contents, values: Values) -> str:
    assert contents.keys is not None
    pairs = list(zip(contents.keys, contents.items, strict=True))
    rest = "" if len(pairs) <= MANY else f',"elided":{len(pairs) - HEAD}'
    shown = pairs if len(pairs) <= MANY else pairs[:HEAD]
    return f',"attrs":{{{",".join([f"{json_text(name)}:{values.text(item)}" for name, item in shown])}}}{rest}'


def _array(value: Any, contents: Contents, values: Values) -> str:
    dtype, shape, _ = contents.items[0]
    head, tail = shown_items(value)
    text = f',"dtype":{json_text(dtype)},"shape":[{",".join(map(str, shape))}],"items":[{values.several(head)}]'
    if tail:
        count = 1
        for size in shape:
            count *= size
        text += f',"tail":[{values.several(tail)}],"elided":{count - HEAD - TAIL}'
    return text
