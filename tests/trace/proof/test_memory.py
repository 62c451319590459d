"""What objects are read as, when they are read again and again while they change."""

from __future__ import annotations

import itertools
import random

import pytest

from groundbox.trace.proof.records.memory import Memory
from groundbox.trace.proof.values.things import Thing
from groundbox.trace.schema import Object

CHANGES = """\
class Node:
    def __init__(self, number):
        self.number = number
        self.links = []

class Own(list):
    pass

def main(n):
    nodes, rows, pairs, found = [], [], [], {}
    plain, mixed, own = {}, {}, Own()
    for number in range(n):
        node = Node(number)
        nodes.append(node)
        rows.append([number])
        pairs.append((number, rows[-1]))
        found[number, "row"] = rows[-1]
        plain[str(number)] = True
        mixed[node] = number
        own.append(rows[-1])
        nodes[number // 2].links.append(node)
        rows[number // 3].append(number)
        plain[str(number // 2)] = 1
        mixed[True if number % 2 else 1] = nodes[0]
    node.links.append(nodes[0])
    rows[1] = rows[2] = [True]
    rows[2].append(1)
    rows.insert(0, [0])
    rows[3].append(2)
    del rows[-2:]
    rows.append(rows[0])
    rows[0].append(3)
    del found[2, "row"]
    found[2, "row"] = [4]
    found[2, "row"].append(5)
    del plain["3"]
    plain["3"] = 1.0
    rows.clear()
    rows.extend([[1], [2], [3], [4], [5], [6]])
    before = rows[0]
    rows[0] = [7]
    rows[2].append(8)
    before.append(9)
    return n
"""


@pytest.mark.parametrize("order", ["forwards", "there and back", "mixed"])
def test_what_is_taken_over_from_earlier_readings_is_what_one_reads_anew(recorded, order):
    trace = recorded(CHANGES, "main", 7)
    memory = Memory(trace.records)
    moments = list(itertools.product(labels_of(trace.records), range(len(trace.records))))
    moments.sort(key=lambda moment: moment[1])
    if order != "forwards":
        moments = (
            moments + moments[::-1] if order == "there and back" else random.Random(0).sample(moments, len(moments))
        )
    anew = {t: Memory(trace.records) for t in range(len(trace.records))}

    read = [shown(memory.read({"ref": label}, t)) for label, t in moments]

    assert read == [shown(anew[t].read({"ref": label}, t)) for label, t in moments]


def labels_of(records, types=None):
    """Labels of objects of some types, or of all."""
    objects = [record for record in records if type(record) is Object]
    return [record.id for record in objects if types is None or record.type in types]


def shown(value):
    """A value with its types, and the attributes of instances."""
    if isinstance(value, dict):
        return type(value).__name__, [(shown(key), shown(item)) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return type(value).__name__, [shown(item) for item in value]
    if isinstance(value, Thing):
        return value.kind, value.name, value.label, shown(value.attrs)
    return repr(value)


TREE = """\
def main(n):
    tree, by_name = [{"left": None}], {"0": [0]}
    for number in range(n):
        tree.append({"left": None})
        tree[number]["left"] = number
        by_name[str(number)] = [number]
        by_name[str(number // 2)].append(number)
    return n
"""


def test_a_container_that_changes_is_not_read_whole_each_time(recorded, monkeypatch):
    read = []
    whole = Memory._object
    monkeypatch.setattr(Memory, "_object", lambda memory, *place: read.append(place) or whole(memory, *place))
    counts = []
    for size in (60, 240):
        records = recorded(TREE, "main", size).records
        memory = Memory(records)
        read.clear()
        for t, label in itertools.product(range(len(records)), labels_of(records, ("list", "dict"))[:2]):
            memory.read({"ref": label}, t)
        counts.append(len(read))

    assert counts[1] < 6 * counts[0]
