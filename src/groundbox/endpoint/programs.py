"""The programs in a reply: its fenced blocks, and the one that answers a question.

A fence opens and closes as CommonMark has it, with one exception: a fence within a text of a Python program, such as
in its docstring, closes nothing. Models write anything, so all of it is bounded, and each line is looked at once.

Of several programs the one is meant that defines what was asked for. A block that only calls it shows how it is used,
and a block without a language that is no program shows what is printed.
"""

from __future__ import annotations

import ast
import builtins
import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from groundbox.endpoint.answer import without_thinking
from groundbox.values.parsing import module_of

PYTHON: Final = frozenset(["python", "py", "python3", "py3", "ipython"])
MOST_CHARS: Final = 200_000
"""Of a reply; of a longer one the end is read, where answers stand."""
_MARKDOWN: Final = frozenset(["markdown", "md"])
_MOST_BLOCKS: Final = 200
_OPENING: Final = re.compile(r"([ ]{0,12})(`{3,}|~{3,})[ ]*([\w+.-]*)[^`]*")
_MOST_HEAD_CHARS: Final = 200
_QUOTES: Final = re.compile(r"'''|\"\"\"|#[^\n]*|'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\"", re.DOTALL)
_FAULTS: Final = (SyntaxError, ValueError, RecursionError, MemoryError)


class Block(NamedTuple):
    """A fenced block.

    Attributes:
        language: In small letters; "" if the fence names none.
        begin, end: Of the block with its fences, in the text.
    """

    language: str
    text: str
    begin: int
    end: int


class Chosen(NamedTuple):
    """The program of a reply, "" if it has none, and why this one, in words."""

    text: str
    why: str


def blocks_of(text: str) -> Iterator[Block]:
    """Yield the fenced blocks of a text. One that is not closed, as of a reply that was cut, goes on to the end."""
    lines = re.split(r"(?<=\n)", text)
    at = place = 0
    while at < len(lines):
        opened = _OPENING.fullmatch(lines[at].rstrip("\r\n")[:_MOST_HEAD_CHARS])
        begin, place, at = place, place + len(lines[at]), at + 1
        if opened is None:
            continue
        indentation, mark, language = len(opened[1]), opened[2], opened[3].lower()
        end = _end_of_block(lines, at, mark, is_python=not language or language in PYTHON)
        inside = lines[at:end]
        place += sum(map(len, lines[at : len(lines) if end is None else end + 1]))
        at = len(lines) if end is None else end + 1
        yield Block(language, "".join(_without(line, indentation) for line in inside), begin, place)


def program_of(reply: str, entry: str = "") -> Chosen:
    """Choose the program of a reply.

    Args:
        entry: The function that the program has to define; "" if that is not known.
    """
    text = without_thinking(reply[-MOST_CHARS:])
    if text is None:
        return Chosen("", "the thinking was not ended")
    blocks = [each for block in blocks_of(text) for each in _inner_blocks(block)][-_MOST_BLOCKS:]
    if not blocks:
        indented = _indented(text)
        if entry and _defines(indented, entry) and not _body(text):
            return Chosen(indented, "nothing is fenced, so what is indented")
        return Chosen(text, "nothing is fenced, so all of it")
    named = [block.text for block in blocks if block.language in PYTHON]
    unnamed = [block.text for block in blocks if not block.language]
    if entry:
        candidates = [block.text for block in blocks if block.language in PYTHON or not block.language]
        defining = [number for number, each in enumerate(candidates) if _defines(each, entry)]
        whole = [number for number in defining if not _is_stub(candidates[number], entry)] or defining
        if whole:
            return _with_what_it_needs(candidates, whole[-1], f"the last block that defines `{entry}`")
    if named:
        return _last(named, "the last block of Python")
    programs = [each for each in unnamed if is_program(each)] or unnamed
    if programs:
        return _last(programs, "the last block without a language")
    return Chosen("", "no block is Python")


def _inner_blocks(block: Block) -> Sequence[Block]:
    """The blocks within a block of Markdown; any other block alone, as a program without prompts."""
    if block.language in _MARKDOWN and (inner := list(blocks_of(block.text))):
        return inner
    is_session = block.language in PYTHON | {"", "pycon"} and block.text.lstrip().startswith(">>>")
    if not is_session:
        return [block]
    lines = [line[4:] or "\n" for line in block.text.splitlines(keepends=True) if line.startswith((">>>", "..."))]
    return [block._replace(text="".join(lines), language="python")]


def _indented(text: str) -> str:
    """The lines that begin with four blanks or a tab, which is how Markdown writes code without fences."""
    lines = [line for line in text.splitlines() if line.startswith(("    ", "\t")) or not line.strip()]
    return textwrap.dedent("\n".join(lines)).strip("\n") + "\n"


def _last(blocks: Sequence[str], why: str) -> Chosen:
    """Choose the last block, after those that define what it calls."""
    return _with_what_it_needs(blocks, len(blocks) - 1, why)


def _with_what_it_needs(blocks: Sequence[str], number: int, why: str) -> Chosen:
    parts = [blocks[number]]
    missing = _names_used(blocks[number]) - _names_defined(blocks[number])
    for earlier in reversed(blocks[:number]):
        defined = _names_defined(earlier)
        if missing & defined and not (defined & _names_defined(blocks[number])):
            parts.insert(0, earlier)
            missing = (missing - defined) | (_names_used(earlier) - defined)
    if len(parts) > 1:
        why += f", after {len(parts) - 1} earlier that it needs"
    return Chosen("".join(part if part.endswith("\n") or part is parts[-1] else part + "\n" for part in parts), why)


def _end_of_block(lines: Sequence[str], begin: int, mark: str, *, is_python: bool) -> int | None:
    """The line of the fence that closes a block; the first one in a text of it if no other does."""
    first, quote = None, ""
    for at in range(begin, len(lines)):
        if _closes(lines[at], mark):
            if not is_python or not quote:
                return at
            first = at if first is None else first
            continue
        if is_python:
            quote = _quote_after(lines[at], quote)
    return first


def _closes(line: str, mark: str) -> bool:
    if len(line) > _MOST_HEAD_CHARS:
        return False
    bare = line.strip()
    return len(bare) >= len(mark) and bare == mark[0] * len(bare)


def _without(line: str, indentation: int) -> str:
    """A line without as many blanks as its fence has before it, as in an item of a list."""
    blanks = len(line) - len(line.lstrip(" "))
    return line[min(blanks, indentation) :]


def _quote_after(line: str, quote: str) -> str:
    """The triple quotes that are open after a line, if `quote` was before it."""
    at = 0
    while True:
        if quote:
            end = line.find(quote, at)
            if end < 0:
                return quote
            at, quote = end + len(quote), ""
        found = _QUOTES.search(line, at)
        if found is None:
            return ""
        at = found.end()
        if found[0] in ("'''", '"""'):
            quote = found[0]


def _body(code: str) -> Sequence[ast.stmt]:
    try:
        return module_of(code).body
    except _FAULTS:
        return ()


def is_program(code: str) -> bool:
    """Return whether a block without a language is a Python program: it can be compiled, and does something."""
    return any(not isinstance(node, ast.Expr) or isinstance(node.value, ast.Call | ast.Await) for node in _body(code))


def _defines(code: str, name: str) -> bool:
    if body := _body(code):
        return name in _bound(body)
    return re.search(rf"^(?:async[ ]+)?def[ ]+{re.escape(name)}\b", code, re.MULTILINE) is not None


def _is_stub(code: str, name: str) -> bool:
    """Return whether a function's body says nothing, as in a block that repeats the question."""
    for node in _body(code):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            return all(
                isinstance(each, ast.Pass | ast.Raise)
                or (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))
                for each in node.body
            )
    return False


def _names_defined(code: str) -> set[str]:
    return _bound(_body(code))


def _bound(body: Sequence[ast.stmt]) -> set[str]:
    found: set[str] = set()
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(statement.name)
            continue
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.id)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found.add(node.name)
            elif isinstance(node, ast.alias):
                found.add((node.asname or node.name).partition(".")[0])
    return found


def _names_used(code: str) -> set[str]:
    body = _body(code)
    local = {
        node.arg if isinstance(node, ast.arg) else node.id
        for statement in body
        for node in ast.walk(statement)
        if isinstance(node, ast.arg) or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    }
    used = {
        node.id
        for statement in body
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
    return used - local - set(dir(builtins))
