"""Recorded calls held against a call as a claim writes it, argument by argument; and values as claims write them."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any, Final

from groundbox.trace.claims.data import ClaimData
from groundbox.trace.claims.items import decimals
from groundbox.trace.claims.model import Judged, Kind, Status, not_found, refuted
from groundbox.trace.claims.told import parsed_call, told
from groundbox.trace.claims.walk import Walk, closed, is_of
from groundbox.trace.record import schema
from groundbox.trace.record.value import ref_of
from groundbox.values.equal import as_told
from groundbox.values.literals import shown
from groundbox.values.unknown import Unknown

WIDTHS: Final = (200, 120, 80, 60, 40)
"""Characters at which writers cut the text of a value."""


class CallWalk(Walk):
    """The run up to a record, with calls and values that claims write compared with those that are recorded."""

    def misfit(self, claim: ClaimData, call: schema.Call) -> Judged | None:
        """Return why a call that was made just now is not the one that a claim speaks of; None if it is."""
        (node, texts), step = parsed_call(claim.subject), self.state.t
        function = node.func if isinstance(node, ast.Call) else node
        if not isinstance(function, ast.Name | ast.Attribute):
            return not_found("its subject is no call")
        said = function.id if isinstance(function, ast.Name) else function.attr
        owner = call.name.split(".")[:-1]
        of_class = (
            function.value.id if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) else ""
        )
        # `Stack.push(s, 1)` names its class: a method of another class by that name is another one.
        is_other = owner[-1:] != [of_class] and self.course.defines(of_class, said)
        if is_other or not is_of(call, said):
            return refuted(step, f"record {step} is a call of `{cut(call.name)}`")
        if not isinstance(node, ast.Call):
            return None
        if (node := self._unpacked(node, call.p)) is None:
            return not_found("what it unpacks is not known")
        # `self.items(0)` of a property calls what the property gives.
        if self.course.is_property(call):
            return not_found("a property is given no arguments")
        given = dict(call.args)
        # Arguments without a default cannot be left out, and a claim that leaves them out claims another call.
        if len(node.args) + len(node.keywords) < self.course.required(call) - _has_object(call):
            return refuted(step, f"`{cut(call.name)}` was given more arguments")
        if owner and owner[-1] != "<locals>" and len(node.args) + len(node.keywords) < len(given):
            given.pop(next(iter(given)))  # self
        is_spread = self.course.spreads(call) or len(node.args) > len(given)
        if is_spread or any(keyword.arg not in given for keyword in node.keywords):
            return self._spread(node, given, call, texts)
        places = [*zip(given, node.args, strict=False), *((str(each.arg), each.value) for each in node.keywords)]
        found = (self._misfitting(argument, given[parameter], call, texts) for parameter, argument in places)
        return next((each for each in found if each is not None), None)

    def _unpacked(self, node: ast.Call, caller: int) -> ast.Call | None:
        """Return a call with what `*xs` and `**options` of its caller hold in their places; None if that is unknown."""
        args: list[ast.expr] = []
        keywords: list[ast.keyword] = []
        for each in node.args:
            if not isinstance(each, ast.Starred):
                args.append(each)
            elif isinstance(each.value, ast.List | ast.Tuple):
                args += each.value.elts
            elif isinstance(items := self._evaluated_in(caller, each.value), list | tuple | str | range):
                args += [ast.Constant(item) for item in items]
            else:
                return None
        for keyword in node.keywords:
            if keyword.arg is not None:
                keywords.append(keyword)
            elif isinstance(items := self._evaluated_in(caller, keyword.value), dict):
                keywords += [ast.keyword(str(name), ast.Constant(value)) for name, value in items.items()]
            else:
                return None
        return ast.Call(node.func, args, keywords)

    def _evaluated_in(self, frame: int, node: ast.expr) -> Any:
        """Return the value of an expression of a frame that waits for a call; None if it is not known."""
        own, self.frame = self.frame, frame
        try:
            return self.evaluated(node)
        except Unknown:
            return None
        finally:
            self.frame = own

    def _spread(
        self, node: ast.Call, given: Mapping[str, schema.V], call: schema.Call, texts: Mapping[str, str]
    ) -> Judged | None:
        """Arguments that `*args` and `**options` took: each has to be among what they hold, those by place in place."""
        placed = self._by_place(node, call)
        if placed is None:
            return refuted(self.state.t, f"`{cut(call.name)}` was given another number of arguments")
        for argument, value in placed:
            if (misfit := self._misfitting(argument, value, call, texts)) is not None:
                return misfit
        held: list[schema.V] = []
        keys = set(given)
        for value in given.values():
            obj = self.state.heap.get(ref_of(value) or 0)
            # `*args` is a tuple, which is written in place; `**options` a dict with a label.
            held += value["tuple"] if isinstance(value, dict) and "tuple" in value else [value]
            pairs = [*obj.pairs.values()] if obj is not None and obj.pairs is not None else []
            held += [option for _, option in pairs]
            keys |= {str(key) for key, _ in pairs}
        if any(keyword.arg is not None and keyword.arg not in keys for keyword in node.keywords):
            return refuted(self.state.t, f"`{cut(call.name)}` was given no argument of this name")
        # Which place each took is not known of all; each has to be among what was given.
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            if all(self._misfitting(argument, value, call, texts) is not None for value in held):
                return refuted(self.state.t, f"`{cut(call.name)}` was not given one of these arguments")
        return None

    def _by_place(self, node: ast.Call, call: schema.Call) -> list[tuple[ast.expr, schema.V]] | None:
        """Arguments with what the call has of them, as far as that is known; None if there are too many or too few."""
        takes = self.course.arguments(call)
        if takes is None or any(isinstance(each, ast.Starred) for each in node.args):
            return []
        names = [each.arg for each in (*takes.posonlyargs, *takes.args)][_has_object(call) :]
        named = {each.arg for each in (*takes.args, *takes.kwonlyargs)}
        found = [(each, call.args[name]) for name, each in zip(names, node.args, strict=False) if name in call.args]
        found += [
            (each.value, call.args[each.arg]) for each in node.keywords if each.arg in named and each.arg in call.args
        ]
        rest = call.args.get(takes.vararg.arg) if takes.vararg is not None else None
        is_named = takes.vararg is not None and any(each.arg == takes.vararg.arg for each in node.keywords)
        if isinstance(rest, dict) and "tuple" in rest and not rest.get("elided") and not is_named:
            extra = node.args[len(names) :]
            if len(extra) != len(rest["tuple"]):
                return None
            found += zip(extra, rest["tuple"], strict=True)
        return found

    def _misfitting(
        self, argument: ast.expr, given: schema.V, call: schema.Call, texts: Mapping[str, str]
    ) -> Judged | None:
        """Return why an argument is not what a call was given; `...` may be anything, a name is one of the caller's."""
        if isinstance(argument, ast.Constant) and argument.value is ...:
            return None
        if isinstance(argument, ast.Name) and argument.id in texts:
            found = self.as_shown(ClaimData(kind=Kind.VALUE, value=texts[argument.id]), given)
            return None if found.status is Status.SUPPORTED else found
        if isinstance(argument, ast.Name):
            try:
                held = self.state.lookup(call.p, argument.id)
            except (KeyError, Unknown):
                if closed(argument)[0]:  # `inf`
                    found = self.is_value(argument.id, given)
                    return None if found.status is Status.SUPPORTED else found
                return None if argument.id in call.args else not_found(f"the caller has no `{argument.id}`")
            # A name of the function itself is what a telling has for an object that it does not write out.
            fits = held == given or argument.id in call.args
            return None if fits else refuted(self.state.t, f"`{argument.id}` is not what was given")
        text = ast.unparse(argument)
        # Code of the caller, such as `xs[i]`: worked out in its frame at this moment.
        if not told(text).known and (fits := self.is_given(argument, given, call.p)) is not None:
            return None if fits else refuted(self.state.t, f"`{cut(text)}` is not what was given")
        if not told(text).known and text in self.code:
            return None  # the program's own code, of which the value is not known
        found = self.is_value(text, given)
        return None if found.status is Status.SUPPORTED else found

    def is_value(self, text: str, raw: schema.V) -> Judged:
        said = told(text)
        claim = ClaimData(kind=Kind.VALUE, value=text)
        try:
            actual = self.state.python_value(raw)
        except Unknown:
            return self.as_shown(claim, raw)
        return compared(claim, actual, said.value, self.state.t) if said.known else self.as_shown(claim, raw)

    def as_shown(self, claim: ClaimData, raw: schema.V) -> Judged:
        """A value that is no literal, by its text: `Account(owner='Ada')`, `[1, … 9 more …, 4]`."""
        step = self.state.t
        shown = ""
        # The width at which it was cut is not said; what fits at none of these was not written by `State.text`.
        for width in dict.fromkeys((*WIDTHS, len(claim.value) + 8, len(claim.value), 100_000)):
            self.left -= 1 + width // 1000
            text = self.state.text(raw, width)
            shown = shown or text
            if claim.value == text:
                return Judged(Status.SUPPORTED, step)
        return refuted(step, f"it is {cut(shown)} at record {step}", actual=cut(shown))


def _has_object(call: schema.Call) -> bool:
    """Return whether the first argument is the object or class that a method belongs to."""
    return next(iter(call.args), "") in ("self", "cls")


def compared(claim: ClaimData, actual: Any, said: Any, step: int) -> Judged:
    if as_told(actual, said, decimals(claim.value)):
        return Judged(Status.SUPPORTED, step)
    about = f"`{cut(claim.subject)}`" if claim.subject else "it"
    return refuted(step, f"{about} is {shown(actual)} at record {step}", actual=shown(actual))


def cut(text: str) -> str:
    return text if len(text) <= 120 else f"{text[:120]}…"
