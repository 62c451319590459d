"""What can be told of a graph: its parts as data and as text, and what looks like a mistake in it."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from groundbox.execution import Warning
from groundbox.runtimes.graph import Graph

MEDIA_TYPE: Final = "application/vnd.groundbox.graph+json"
_MOST_TOLD: Final = 2000
_MOST_LINES: Final = 200
_MOST_CYCLES: Final = 20
_MOST_NAME: Final = 200
_MOST_COMPARISONS: Final = 10_000
_MOST_COMPARED_LETTERS: Final = 60
_MOST_WARNINGS: Final = 20
_LIKE: Final = 0.75
_ATTRIBUTE_NAMES: Final = """
    _background area arrowhead arrowsize arrowtail bb beautify bgcolor center charset class cluster clusterrank
    color colorscheme comment compound concentrate constraint Damping decorate defaultdist dim dimen dir
    diredgeconstraints distortion dpi edgehref edgetarget edgetooltip edgeURL epsilon esep fillcolor fixedsize
    fontcolor fontname fontnames fontpath fontsize forcelabels gradientangle group head_lp headclip headhref
    headlabel headport headtarget headtooltip headURL height href id image imagepath imagepos imagescale inputscale
    K label label_scheme labelangle labeldistance labelfloat labelfontcolor labelfontname labelfontsize labelhref
    labeljust labelloc labeltarget labeltooltip labelURL landscape layer layerlistsep layers layerselect layersep
    layout len levels levelsgap lhead lheight linelength lp ltail lwidth margin maxiter mclimit mindist minlen mode
    model newrank nodesep nojustify normalize notranslate nslimit nslimit1 oneblock ordering orientation outputorder
    overlap overlap_scaling overlap_shrink pack packmode pad page pagedir pencolor penwidth peripheries pin pos
    quadtree quantum radius rank rankdir ranksep ratio rects regular remincross repulsiveforce resolution root
    rotate rotation samehead sametail samplepoints scale searchsize sep shape shapefile showboxes sides size skew
    smoothing sortv splines start style stylesheet tail_lp tailclip tailhref taillabel tailport tailtarget
    tailtooltip tailURL target TBbalance tooltip truecolor URL vertices viewport voro_margin weight width
    xdotversion xlabel xlp z
"""
_ATTRIBUTES: Final = frozenset(_ATTRIBUTE_NAMES.split())


def bundle(graph: Graph) -> dict[str, Any]:
    """The graph as data and as text; both say how much they leave out."""
    structure = _structure(graph)
    return {"text/plain": "\n".join(_lines(structure)), MEDIA_TYPE: structure}


def warnings(graph: Graph) -> Sequence[Warning]:
    """What looks like a mistake. At most twenty of a kind."""
    found = []
    for rule in (_unknown_attributes, _misspelt_nodes, _unconnected_nodes, _further_graphs):
        found += [warning for warning, _ in zip(rule(graph), range(_MOST_WARNINGS), strict=False)]
    return found


def _structure(graph: Graph) -> dict[str, Any]:
    neighbours = _neighbours(graph, directed=False)
    components = _components(graph, neighbours)
    names = list(graph.nodes)
    nodes = [_told({"id": name, "label": graph.nodes[name].label}) for name in names[:_MOST_TOLD]]
    edges = [_told({"from": e.tail, "to": e.head, "label": e.label}) for e in graph.edges[:_MOST_TOLD]]
    isolated = [name for name in names if not neighbours[name]]
    cycles = _cycles(graph) if graph.directed else []
    return {
        "name": _short(graph.name),
        "directed": graph.directed,
        "strict": graph.strict,
        "counts": {
            "nodes": len(names),
            "edges": len(graph.edges),
            "isolated": len(isolated),
            "components": len(components),
        },
        "cyclic": bool(cycles) if graph.directed else len(graph.edges) > len(names) - len(components),
        "nodes": nodes,
        "edges": edges,
        "isolated": _all_short(isolated),
        "components": [_all_short(part) for part in components[:_MOST_CYCLES]],
        "cycles": [_all_short(cycle) for cycle in cycles[:_MOST_CYCLES]],
        "left_out": {
            "nodes": max(0, len(names) - _MOST_TOLD),
            "edges": max(0, len(graph.edges) - _MOST_TOLD),
            "components": max(0, len(components) - _MOST_CYCLES),
            "cycles": max(0, len(cycles) - _MOST_CYCLES),
        },
    }


def _lines(structure: Mapping[str, Any]) -> Iterator[str]:
    counts, arrow = structure["counts"], "->" if structure["directed"] else "--"
    kind = "digraph" if structure["directed"] else "graph"
    yield (
        f"{kind} {structure['name']}".strip()
        + f": {_counted(counts['nodes'], 'node')}, {_counted(counts['edges'], 'edge')}, "
        + f"{_counted(counts['components'], 'component')}, "
        + ("with cycles" if structure["cyclic"] else "no cycles")
    )
    nodes = [node["id"] + (f" {node['label']!r}" if "label" in node else "") for node in structure["nodes"]]
    yield from _listed("nodes", nodes, counts["nodes"])
    edges = [
        f"{edge['from']} {arrow} {edge['to']}" + (f" {edge['label']!r}" if "label" in edge else "")
        for edge in structure["edges"]
    ]
    yield from _listed("edges", edges, counts["edges"])
    if structure["isolated"]:
        yield from _listed("isolated", structure["isolated"], counts["isolated"])
    for cycle in structure["cycles"]:
        yield f"cycle: {f' {arrow} '.join([*cycle, cycle[0]])}"
    if counts["components"] > 1:
        told = [", ".join(part[:20]) for part in structure["components"]]
        yield from _listed("components", told, counts["components"])


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _listed(title: str, items: Sequence[str], count: int) -> Iterator[str]:
    if items:
        yield f"{title}:"
    for item in items[:_MOST_LINES]:
        yield f"  {item}"
    if count > min(len(items), _MOST_LINES):
        yield f"  … {count - min(len(items), _MOST_LINES)} more"


def _told(item: Mapping[str, str | None]) -> dict[str, str]:
    return {key: _short(value) for key, value in item.items() if value is not None}


def _all_short(names: Sequence[str]) -> list[str]:
    return [_short(name) for name in names[:_MOST_TOLD]]


def _short(text: str) -> str:
    """A name may be as long as the source, and is told with each of its edges."""
    return text if len(text) <= _MOST_NAME else f"{text[:_MOST_NAME]}… {len(text) - _MOST_NAME} more"


def _neighbours(graph: Graph, *, directed: bool) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {name: [] for name in graph.nodes}
    for edge in graph.edges:
        found[edge.tail].append(edge.head)
        if not directed:
            found[edge.head].append(edge.tail)
    return found


def _components(graph: Graph, neighbours: Mapping[str, list[str]]) -> list[list[str]]:
    """Nodes that are connected, whatever the direction; the largest part first."""
    seen: set[str] = set()
    parts = []
    for start in graph.nodes:
        if start in seen:
            continue
        seen.add(start)
        part = [start]
        for name in part:
            for other in neighbours[name]:
                if other not in seen:
                    seen.add(other)
                    part.append(other)
        parts.append(part)
    return sorted(parts, key=len, reverse=True)


def _cycles(graph: Graph) -> list[list[str]]:
    """One cycle of each group of nodes that reach each other (Tarjan's algorithm, without recursion)."""
    following = _neighbours(graph, directed=True)
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    cycles = []
    for root in graph.nodes:
        if root in index:
            continue
        work = [(root, iter(following[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            name, others = work[-1]
            for other in others:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    on_stack.add(other)
                    work.append((other, iter(following[other])))
                    break
                if other in on_stack:
                    low[name] = min(low[name], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[name])
                if low[name] == index[name]:
                    group = [stack.pop()]
                    while group[-1] != name:
                        group.append(stack.pop())
                    on_stack.difference_update(group)
                    if len(group) > 1 or name in following[name]:
                        cycles.append(_one_cycle(name, set(group), following))
    return cycles


def _one_cycle(start: str, group: set[str], following: Mapping[str, list[str]]) -> list[str]:
    """The shortest way from `start` back to it within its group."""
    before: dict[str, str] = {}
    queue = [start]
    for name in queue:
        for other in following[name]:
            if other == start:
                way = [name]
                while way[-1] != start:
                    way.append(before[way[-1]])
                return way[::-1]
            if other in group and other not in before:
                before[other] = name
                queue.append(other)
    return [start]


def _unknown_attributes(graph: Graph) -> Iterator[Warning]:
    told = set()
    for used in graph.used:
        if used.name in _ATTRIBUTES or used.name in told:
            continue
        told.add(used.name)
        close = difflib.get_close_matches(used.name, _ATTRIBUTES, 1, _LIKE) if len(used.name) < 50 else []
        yield Warning(
            code="dot.unknown_attribute",
            tier="warn",
            message=f"line {used.line}: Graphviz has no attribute {_short(used.name)!r}, and does nothing for it",
            evidence={"attribute": _short(used.name), "line": used.line},
            hint=f"Did you mean {close[0]!r}?" if close else "",
        )


def _misspelt_nodes(graph: Graph) -> Iterator[Warning]:
    """Only where nodes are declared at all: many graphs name theirs in edges only."""
    names = {name: node for name, node in graph.nodes.items() if len(name) <= _MOST_COMPARED_LETTERS}
    declared = [name for name, node in names.items() if node.declared]
    others = [node for node in names.values() if not node.declared]
    if len(declared) * len(others) > _MOST_COMPARISONS:
        return
    folded = {name.casefold(): name for name in declared}
    for node in others:
        if len(node.name) < 3 and node.name.casefold() not in folded:
            continue
        close = folded.get(node.name.casefold())
        close = close or next(iter(difflib.get_close_matches(node.name, declared, 1, _LIKE)), None)
        if close is None or _numbered_alike(node.name, close):
            continue
        yield Warning(
            code="dot.misspelt_node",
            tier="warn",
            message=f"line {node.line}: {node.name!r} is only named by an edge, and looks like the node {close!r}",
            evidence={"node": node.name, "declared": close, "line": node.line},
            hint=f"If {close!r} is meant, write it so; Graphviz has drawn one more node.",
        )


def _numbered_alike(one: str, other: str) -> bool:
    """Such as step1 and step2, which differ on purpose."""
    return one.strip("0123456789_") == other.strip("0123456789_") or (len(one) == len(other) and one[:-1] == other[:-1])


def _unconnected_nodes(graph: Graph) -> Iterator[Warning]:
    if not graph.edges:
        return
    connected = {name for edge in graph.edges for name in (edge.tail, edge.head)}
    lonely = [name for name in graph.nodes if name not in connected]
    if lonely:
        shown = ", ".join(repr(_short(name)) for name in lonely[:10])
        shown += f" and {len(lonely) - 10} more" if len(lonely) > 10 else ""
        yield Warning(
            code="dot.unconnected_node",
            tier="note",
            message=f"no edge reaches {shown}",
            evidence={"nodes": _all_short(lonely)},
        )


def _further_graphs(graph: Graph) -> Iterator[Warning]:
    if graph.graph_count > 1:
        yield Warning(
            code="dot.several_graphs",
            tier="warn",
            message=f"the source holds {graph.graph_count} graphs; the first is shown",
            evidence={"graphs": graph.graph_count},
            hint="Run one program for each.",
        )
