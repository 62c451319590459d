"""Reading DOT: the graph that a source describes, or the place where it goes wrong and what was expected there.

Graphviz tells the line of an error and the word before it. This parser tells the column and what could have stood
there; and it tells which nodes a source declares and which are only named by an edge, which Graphviz does not.
The grammar is that of graphviz.org/doc/info/lang.html. Of the attributes, labels are kept, and of the others the names.
Time and memory are linear in the source and in the edges that it makes: it may have been written to take more.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Sequence
from typing import Final, NamedTuple

MOST_EDGES: Final = 20_000
_MOST_DEPTH: Final = 100
_KEYWORDS: Final = frozenset({"strict", "graph", "digraph", "node", "edge", "subgraph"})
_TOKEN: Final = re.compile(
    r"""[ \t\r\n\f\v\ufeff]*+(?:(?P<skip>$|//[^\n]*|/\*.*?\*/|\#[^\n]*)
    |(?P<word>[A-Za-z_\x80-\U0010ffff][\w\x80-\U0010ffff]*|-?(?:\.\d+|\d+(?:\.\d*)?))
    |(?P<quoted>"[^"\\]*+(?:\\.[^"\\]*+)*+")
    |(?P<html><)
    |(?P<sign>->|--|[{}\[\];,:=+]))""",
    re.VERBOSE | re.DOTALL,
)


class Token(NamedTuple):
    """`kind` is `id`, `keyword`, `end` or the sign itself."""

    kind: str
    text: str
    offset: int


class DotError(Exception):
    """The source is no DOT.

    Attributes:
        line, column: Counted from 1.
        found: What stands there.
        expected: What could stand there.
    """

    def __init__(self, source: str, offset: int, found: str, expected: str) -> None:
        self.line = source.count("\n", 0, offset) + 1
        self.column = offset - source.rfind("\n", 0, offset)
        self.found, self.expected = found, expected
        super().__init__(f"expected {expected}, found {found}")


class TooLarge(Exception):
    """The source makes more edges than are told."""


@dataclasses.dataclass(slots=True)
class Node:
    """Attributes: declared: Whether it has a statement of its own, not only an edge's."""

    name: str
    label: str | None
    line: int
    declared: bool = False


class Edge(NamedTuple):
    """In an undirected graph, in the order of the source."""

    tail: str
    head: str
    label: str | None
    line: int


class Used(NamedTuple):
    """An attribute where it is set."""

    name: str
    line: int


@dataclasses.dataclass(slots=True)
class Graph:
    """What a source describes. Attributes: graph_count: How many graphs the source holds; this is the first."""

    name: str = ""
    directed: bool = True
    strict: bool = False
    nodes: dict[str, Node] = dataclasses.field(default_factory=dict)
    edges: list[Edge] = dataclasses.field(default_factory=list)
    used: list[Used] = dataclasses.field(default_factory=list)
    graph_count: int = 1


def parse(source: str) -> Graph:
    """The first graph of the source.

    Raises:
        DotError: It is no DOT.
        TooLarge: It makes more than MOST_EDGES edges.
    """
    return _Parser(source).run()


_Defaults = dict[str, str]
"""The label of each `node` and `edge` that has none of its own."""


class _Parser:
    def __init__(self, source: str) -> None:
        self._source = source
        self._tokens = _tokens(source)
        self._at = 0
        self._line, self._line_offset = 1, 0
        self._graph = Graph()
        self._made = 0
        self._known: set[tuple[str, str]] = set()

    def run(self) -> Graph:
        self._one_graph()
        first = self._graph
        while self._now.kind != "end":
            self._graph = Graph()
            self._one_graph()
            first.graph_count += 1
        return first

    def _one_graph(self) -> None:
        graph = self._graph
        graph.strict = self._accept("strict")
        kind = self._take("'graph' or 'digraph'", lambda token: token.text.lower() in ("graph", "digraph"), "keyword")
        graph.directed = kind.text.lower() == "digraph"
        if self._now.kind == "id":
            graph.name = self._id("a name")
        self._take("'{'", kind="{")
        self._statements({}, 0)

    @property
    def _now(self) -> Token:
        return self._tokens[self._at]

    def _statements(self, defaults: _Defaults, depth: int) -> list[str]:
        """Up to the closing brace; the nodes that were named."""
        if depth > _MOST_DEPTH:
            raise self._error(f"at most {_MOST_DEPTH} subgraphs within each other")
        named: dict[str, None] = {}
        while self._now.kind != "}":
            named.update(dict.fromkeys(self._statement(defaults, depth)))
            while self._now.kind in (";", ","):
                self._at += 1
        self._at += 1
        return list(named)

    def _statement(self, defaults: _Defaults, depth: int) -> Sequence[str]:
        token = self._now
        word = token.text.lower() if token.kind == "keyword" else ""
        if word in ("graph", "node", "edge"):
            self._at += 1
            if self._now.kind == "id" and self._tokens[self._at + 1].kind == "=":
                self._at += 2  # the name of a macro, which Graphviz reads and does nothing with
            label = self._label(needed=True)
            if label is not None and word != "graph":
                defaults[word] = label
            return ()
        if token.kind == "id" and self._tokens[self._at + 1].kind == "=":
            line = self._line_of(token)
            name = self._id("a name")
            self._at += 1
            self._graph.used.append(Used(name, line))
            self._id("a value")
            return ()
        return self._nodes_and_edges(defaults, depth)

    def _nodes_and_edges(self, defaults: _Defaults, depth: int) -> Sequence[str]:
        line = self._line_of(self._now)
        ends = [self._end(defaults, depth, line)]
        while self._now.kind in ("->", "--"):
            self._take("'->' in a digraph" if self._graph.directed else "'--' in a graph", self._is_own_edge)
            ends.append(self._end(defaults, depth, line))
        is_node = len(ends) == 1 and ends[0].is_node
        label = self._label() if len(ends) > 1 or is_node else None
        if is_node:
            node = self._graph.nodes[ends[0].names[0]]
            node.label = node.label if label is None else label
            if not node.declared:
                node.declared, node.line = True, line
        for tails, heads in itertools.pairwise(ends):
            self._connect(tails.names, heads.names, defaults.get("edge") if label is None else label, line)
        return [name for end in ends for name in end.names]

    def _end(self, defaults: _Defaults, depth: int, line: int) -> _End:
        if self._now.kind == "keyword" and self._now.text.lower() == "subgraph":
            self._at += 1
            if self._now.kind == "id":
                self._id("a name")
            if self._now.kind != "{":
                raise self._error("'{'")
        if self._now.kind == "{":
            self._at += 1
            return _End(self._statements(dict(defaults), depth + 1), is_node=False)
        name = self._id("a node, a subgraph, an attribute or '}'")
        for _ in range(2):
            if self._now.kind == ":":
                self._at += 1
                self._id("a port")
        if name not in self._graph.nodes:
            self._graph.nodes[name] = Node(name, defaults.get("node"), line)
        return _End([name], is_node=True)

    def _is_own_edge(self, token: Token) -> bool:
        return token.kind == ("->" if self._graph.directed else "--")

    def _connect(self, tails: Sequence[str], heads: Sequence[str], label: str | None, line: int) -> None:
        graph = self._graph
        self._made += len(tails) * len(heads)
        if self._made > MOST_EDGES:
            raise TooLarge
        for tail in tails:
            for head in heads:
                pair = (tail, head) if graph.directed or tail <= head else (head, tail)
                if not (graph.strict and pair in self._known):
                    graph.edges.append(Edge(tail, head, label, line))
                self._known.add(pair)

    def _label(self, *, needed: bool = False) -> str | None:
        """Of a list of attributes, which may be missing; the names of all are noted."""
        label = None
        if needed and self._now.kind != "[":
            raise self._error("'['")
        while self._now.kind == "[":
            self._at += 1
            while self._now.kind != "]":
                line = self._line_of(self._now)
                name = self._id("an attribute's name or ']'")
                value = "true"
                if self._now.kind == "=":
                    self._at += 1
                    value = self._id("a value")
                label = value if name == "label" else label
                self._graph.used.append(Used(name, line))
                if self._now.kind in (";", ","):
                    self._at += 1
            self._at += 1
        return label

    def _id(self, expected: str) -> str:
        token = self._now
        if token.kind != "id":
            raise self._error(expected)
        self._at += 1
        text = _value(token.text)
        while self._now.kind == "+":
            self._at += 1
            if not self._now.text.startswith('"'):
                raise self._error("a quoted text")
            text += _value(self._now.text)
            self._at += 1
        return text

    def _accept(self, keyword: str) -> bool:
        found = self._now.kind == "keyword" and self._now.text.lower() == keyword
        self._at += found
        return found

    def _take(self, expected: str, fits: object = None, kind: str = "") -> Token:
        token = self._now
        if (kind and token.kind != kind) or (callable(fits) and not fits(token)):
            raise self._error(expected)
        self._at += 1
        return token

    def _line_of(self, token: Token) -> int:
        """Tokens are asked for in their order, so that each line end is counted once."""
        if token.offset > self._line_offset:
            self._line += self._source.count("\n", self._line_offset, token.offset)
            self._line_offset = token.offset
        return self._line

    def _error(self, expected: str) -> DotError:
        token = self._now
        found = "the end of the source" if token.kind == "end" else repr(token.text[:40])
        return DotError(self._source, token.offset, found, expected)


class _End(NamedTuple):
    names: list[str]
    is_node: bool


def _tokens(source: str) -> list[Token]:
    tokens: list[Token] = []
    at, end, match_at = 0, len(source), _TOKEN.match
    while at < end:
        match = match_at(source, at)
        if match is None:
            raise _no_token(source, at)
        kind, at = match.lastgroup or "", match.end()
        start, text = match.start(kind), match[kind]
        if kind == "sign":
            tokens.append(Token(text, text, start))
        elif kind == "html":
            at = _html_end(source, start)
            tokens.append(Token("id", source[start:at], start))
        elif kind != "skip":
            tokens.append(Token("keyword" if text.lower() in _KEYWORDS else "id", text, start))
    tokens.append(Token("end", "", end))
    return tokens


def _no_token(source: str, offset: int) -> DotError:
    offset += len(source[offset:]) - len(source[offset:].lstrip())
    sign = source[offset]
    closing = {'"': "a closing '\"'", "/": "a closing '*/'" if source.startswith("/*", offset) else "a comment"}
    return DotError(source, offset, repr(sign), closing.get(sign, "a name, a number, a text or a sign"))


_ANGLE: Final = re.compile(r"[<>]")


def _html_end(source: str, start: int) -> int:
    depth = 0
    for match in _ANGLE.finditer(source, start):
        depth += 1 if match[0] == "<" else -1
        if depth == 0:
            return match.end()
    raise DotError(source, start, "'<'", "a closing '>'")


def _value(text: str) -> str:
    if text.startswith('"'):
        return text[1:-1].replace("\\\n", "").replace('\\"', '"')
    return text
