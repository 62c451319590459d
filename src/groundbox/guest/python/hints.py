"""Hints: sentences that help to mend a failure, found by rules from the live objects.

A rule is a function from a `Fault` to sentences, listed under the exception type it is
for. Rules are deterministic and independent: one that fails itself is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from . import arguments, contents, items, names, network, paths, surroundings
from .fault import Fault
from .frames import Scene
from .peek import TooSlow

HINT_COUNT: Final = 5
HINT_CHARS: Final = 800

Rule = Callable[[Fault], list[str]]

_RULES: Final[dict[type[BaseException], tuple[Rule, ...]]] = {
    NameError: (names.unknown_name,),
    AttributeError: (names.attribute_of_none, names.unknown_attribute),
    ImportError: (names.missing_module, names.missing_member),
    KeyError: (items.missing_key,),
    IndexError: (items.index_too_large,),
    TypeError: (
        arguments.wrong_arguments,
        arguments.shadowed_builtin,
        arguments.none_in_use,
        contents.mixed_types,
        contents.not_json,
    ),
    ValueError: (arguments.changed_value, contents.bad_number, contents.ambiguous_truth),
    UnicodeError: (contents.other_encoding,),
    RuntimeError: (surroundings.running_loop, surroundings.process_limit, surroundings.lost_function),
    SyntaxError: (contents.not_python,),
    EOFError: (surroundings.no_stdin,),
    MemoryError: (surroundings.memory_limit,),
    RecursionError: (surroundings.endless_recursion,),
    OSError: (
        paths.missing_file,
        paths.missing_folder,
        surroundings.read_only,
        surroundings.disk_full,
        surroundings.process_limit,
    ),
    Exception: (names.missing_dependency, network.unreachable_host),
}


def hints_for(exc: BaseException, scene: Scene) -> list[str]:
    """All hints for `exc`, in the order of the rules, at most 5."""
    fault = Fault(exc, scene)
    found: list[str] = list(_own_hints(exc))
    for kind, rules in _RULES.items():
        if isinstance(exc, kind):
            for rule in rules:
                found += _applied(rule, fault)
    shortened = (hint if len(hint) <= HINT_CHARS else hint[:HINT_CHARS] + "…" for hint in found)
    return list(dict.fromkeys(shortened))[:HINT_COUNT]


def _applied(rule: Rule, fault: Fault) -> list[str]:
    try:
        return rule(fault)
    except (KeyboardInterrupt, TooSlow):
        raise
    except BaseException:
        return []  # the rule met an object of the program that misbehaves


class Hinted(Exception):
    """An error of our own magics, which brings its hints along."""

    def __init__(self, message: str, *hints: str) -> None:
        super().__init__(message)
        self.hints = hints


def _own_hints(exc: BaseException) -> tuple[str, ...]:
    return exc.hints if isinstance(exc, Hinted) else ()
