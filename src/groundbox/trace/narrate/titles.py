"""How a call is named: as code, with its arguments' values as far as these are short."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from groundbox.trace.narrate.telling import Telling
from groundbox.trace.record.schema import V
from groundbox.trace.record.value import ref_of
from groundbox.trace.run.structure import Activation

MAX_ARGUMENT: Final = 24
"""Characters of an argument in a call that is written as code; a longer one goes by its name."""


def arguments_of(activation: Activation) -> Sequence[tuple[str, V]]:
    """Parameters with their values, but the object that a method belongs to."""
    items = list(activation.args.items())
    return items[1:] if items and items[0][0] in ("self", "cls") else items


def title(telling: Telling, activation: Activation) -> str:
    """How a call is named when it returns: with its arguments where several of the same function are open.

    Objects go by the names of the parameters, since they may have changed by then.
    """
    if activation.name not in telling.recursive:
        return f"`{activation.short_name}`"
    texts = _written(
        telling,
        activation,
        lambda name, value: name or "..." if ref_of(value) is not None else _argument(telling, activation, value),
    )
    return f"`{activation.short_name}({', '.join(texts)})`"


def call_text(telling: Telling, activation: Activation, *, past: bool = False) -> str:
    """The call as code: short arguments by their values, others by the caller's names for them.

    Args:
        past: Whether the call lies behind, so that objects may have changed since.
    """
    items = arguments_of(activation)
    if not items and activation.args and not past:
        owner = telling.text(next(iter(activation.args.values())), 1000)
        if len(owner) <= MAX_ARGUMENT:
            return f"`{activation.short_name}({owner})`"
    texts = _written(
        telling,
        activation,
        lambda _, value: "..." if past and ref_of(value) is not None else _argument(telling, activation, value),
    )
    return f"`{activation.short_name}({', '.join(texts)})`"


def _written(telling: Telling, activation: Activation, write: Callable[[str, V], str]) -> list[str]:
    """The arguments as a call has them: those of `*args` one by one, those of `**options` by their names.

    Args:
        write: The text of a value; without a name for one of many.
    """
    function = telling.parameters(activation)
    spread, options = (getattr(each, "arg", "") for each in (function.vararg, function.kwarg)) if function else ("", "")
    keywords = {each.arg for each in function.kwonlyargs} if function and spread else set()
    texts: list[str] = []
    for name, value in arguments_of(activation):
        if name == spread and isinstance(value, dict) and "tuple" in value:
            texts += [write("", each) for each in value["tuple"]] + (["..."] if value.get("elided") else [])
        elif name == options:
            texts += _options(telling, value, write)
        else:
            texts.append(f"{name}={write('', value)}" if name in keywords else write(name, value))
    return sorted(texts, key=_is_by_name)


def _is_by_name(text: str) -> bool:
    return text.partition("=")[0].isidentifier() and "=" in text


def _options(telling: Telling, value: V, write: Callable[[str, V], str]) -> list[str]:
    held = telling.state.heap.get(ref_of(value) or 0)
    pairs = list(held.pairs.values()) if held is not None and held.pairs is not None else []
    if held is None or held.unknown_pairs or not all(isinstance(key, str) and key.isidentifier() for key, _ in pairs):
        return ["..."]
    return [f"{key}={write('', each)}" for key, each in pairs]


def _argument(telling: Telling, activation: Activation, value: V) -> str:
    text = telling.text(value, 1000)
    if len(text) <= MAX_ARGUMENT and "`" not in text:
        return text
    label = ref_of(value)
    names = telling.state.names(activation.parent) if label is not None else {}
    return next((name for name, held in names.items() if ref_of(held) == label), "...")
