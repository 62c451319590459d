"""Recorded calls held against a call as a claim writes it, argument by argument; and values as claims write them."""

from __future__ import annotations

import ast
import functools
from collections.abc import Mapping
from typing import Any, Final

from groundbox.trace.claims.data import ClaimData
from groundbox.trace.claims.items import decimals
from groundbox.trace.claims.model import Judged, Kind, Status, not_found, refuted
from groundbox.trace.claims.told import parsed_call, told
from groundbox.trace.claims.walk import Walk, closed, is_of
from groundbox.trace.record import schema
from groundbox.trace.record.syntax import syntax_of
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
        if claim.subject == "<lambda>":  # one of those that records do not tell apart
            is_one = call.name.endswith("<lambda>")
            return None if is_one else refuted(step, f"record {step} is a call of `{cut(call.name)}`")
        if isinstance(node, ast.Lambda):
            return self._other_lambda(node, call)
        if not isinstance(function, ast.Name | ast.Attribute):
            return not_found("its subject is no call")
        said = function.id if isinstance(function, ast.Name) else function.attr
        owner = call.name.split(".")[:-1]
        of_class = getattr(getattr(function, "value", None), "id", "")
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
        given, takes, count = dict(call.args), self.course.arguments(call), len(node.args) + len(node.keywords)
        spreads = takes is not None and bool(takes.vararg or takes.kwarg)
        ways = [given]
        if (owner and owner[-1] != "<locals>" and count < len(given)) or (spreads and _has_object(call)):
            without = dict(list(given.items())[1:])  # self
            # `Stack.push(s, 1)` gives the object itself, and `Stack.read(1)` of a static method has none.
            ways = [given, without] if owner[-1:] == [of_class] else [without]
        found = [self._ill_given(node, way, takes, call, texts) for way in ways]
        return None if None in found else found[-1]

    def _other_lambda(self, node: ast.Lambda, call: schema.Call) -> Judged | None:
        """Return why a call is not of a lambda with this code; None if it is."""
        code = self.lambda_of(call)
        if code is None and call.name.endswith("<lambda>"):
            return not_found("which lambda of its line is called is not known")
        if code != ast.unparse(node):
            return refuted(self.state.t, f"record {self.state.t} is a call of `{cut(code or call.name)}`")
        return None

    def lambda_of(self, call: schema.Call) -> str | None:
        """The code of the lambda that a call is of; None if it is of none, or it is not certain of which."""
        if not call.name.endswith("<lambda>"):
            return None
        code = syntax_of(self.trace.source).code(call.name, call.n, call.args)
        return _unparsed(code.node) if code is not None else None

    def _ill_given(
        self,
        node: ast.Call,
        given: Mapping[str, schema.V],
        takes: ast.arguments | None,
        call: schema.Call,
        texts: Mapping[str, str],
    ) -> Judged | None:
        """Return why a claimed call's arguments are not those that were given; None if they are."""
        bound = self._bound(node, given, takes)
        if isinstance(bound, str):
            return refuted(self.state.t, f"`{cut(call.name)}` was given {bound}")
        found = (self._misfitting(argument, value, call, texts) for argument, value in bound)
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

    def _bound(
        self, node: ast.Call, given: Mapping[str, schema.V], takes: ast.arguments | None
    ) -> list[tuple[ast.expr, schema.V]] | str:
        """Arguments with what was given for each, as Python binds them; what was given instead, if it binds none so."""
        rest, options = (getattr(getattr(takes, part, None), "arg", "") for part in ("vararg", "kwarg"))
        # Without `*args`, writers give those behind `*` by place, too.
        names = [each.arg for each in (*takes.posonlyargs, *takes.args)] if takes is not None and rest else [*given]
        names = [name for name in names if name in given and name != options]
        taken = names[: len(node.args)]
        found = [(argument, given[name]) for name, argument in zip(taken, node.args, strict=False)]
        extra = node.args[len(names) :]
        held = given.get(rest)
        items = held["tuple"] if isinstance(held, dict) and "tuple" in held else []
        # What `*args` took may be told as a whole, by its name.
        is_named = bool(rest) and any(keyword.arg == rest for keyword in node.keywords)
        is_cut = is_named or (isinstance(held, dict) and bool(held.get("elided")))
        # A last `...` stands for what is not told one by one.
        while len(extra) > len(items) and (is_cut or options) and _is_anything(extra[-1]):
            extra.pop()
        if len(extra) > len(items) or (len(extra) < len(items) and not is_cut):
            return "another number of arguments"
        found += zip(extra, items, strict=False)
        obj = self.state.heap.get(ref_of(given.get(options)) or 0)
        more = {str(key): value for key, value in obj.pairs.values()} if obj is not None and obj.pairs else {}
        more |= {name: value for name, value in given.items() if name not in taken}
        if any(keyword.arg not in more for keyword in node.keywords):
            return "no argument of this name"
        # Arguments without a default cannot be left out, and a claim that leaves them out claims another call.
        if not _required(takes) & given.keys() <= {*taken, *(keyword.arg for keyword in node.keywords)}:
            return "more arguments"
        return found + [(keyword.value, more[str(keyword.arg)]) for keyword in node.keywords]

    def _misfitting(
        self, argument: ast.expr, given: schema.V, call: schema.Call, texts: Mapping[str, str]
    ) -> Judged | None:
        """Return why an argument is not what a call was given; `...` may be anything, a name is one of the caller's."""
        if _is_anything(argument):
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


_unparsed: Final = functools.lru_cache(maxsize=256)(ast.unparse)


def _has_object(call: schema.Call) -> bool:
    """Return whether the first argument is the object or class that a method belongs to."""
    return next(iter(call.args), "") in ("self", "cls")


def _required(takes: ast.arguments | None) -> set[str]:
    """Parameters without a default, as far as they are known."""
    if takes is None:
        return set()
    names = [each.arg for each in (*takes.posonlyargs, *takes.args)]
    by_name = zip(takes.kwonlyargs, takes.kw_defaults, strict=True)
    return {*names[: len(names) - len(takes.defaults)], *(each.arg for each, default in by_name if default is None)}


def _is_anything(argument: ast.expr) -> bool:
    return isinstance(argument, ast.Constant) and argument.value is ...


def compared(claim: ClaimData, actual: Any, said: Any, step: int) -> Judged:
    if as_told(actual, said, decimals(claim.value)):
        return Judged(Status.SUPPORTED, step)
    about = f"`{cut(claim.subject)}`" if claim.subject else "it"
    return refuted(step, f"{about} is {shown(actual)} at record {step}", actual=shown(actual))


def cut(text: str) -> str:
    return text if len(text) <= 120 else f"{text[:120]}…"
