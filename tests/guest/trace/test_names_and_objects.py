"""What a traced program's lines did to names and objects, in the short notation of conftest.py."""

import pytest

PROGRAMS = {
    "a name is told when it takes another value": (
        "a = 1\nb = a\na = a\na = 2\ndel b\nx, (y, z) = 1, (2, 3)\nc = d = 's'\nif (n := 10) > 5:\n    pass\n",
        '1:a=1 2:b=1 3: 4:a=2 5:del b 6:x=1 y=2 z=3 7:c="s" d="s" 8:n=10 9:',
    ),
    "two names of one list show one label": (
        "a = [1]\nb = a\nb.append(2)\na[0] = [b]\n",
        "1:#1=list[1] a=#1 2:b=#1 3:#1.splice start=1 removed=0[2] 4:#2=list[#1] #1.set[[0, #2]]",
    ),
    "a list is told by item, by splice or as a whole": (
        "a = [1, 2, 3, 4]\na[1] = 9\na.append(5)\na.pop(0)\na[1:3] = []\na.sort(reverse=True)\n"
        "a += [7, 8]\na.clear()\n",
        "1:#1=list[1, 2, 3, 4] a=#1 2:#1.set[[1, 9]] 3:#1.splice start=4 removed=0[5] 4:#1.splice start=0 removed=1[] "
        "5:#1.splice start=1 removed=2[] 6: 7:#1.splice start=2 removed=0[7, 8] 8:#1.splice start=0 removed=4[]",
    ),
    "a dict is told by key": (
        "d = {'a': 1}\nd['b'] = 2\nd['a'] = 3\ndel d['a']\nd['a'] = 4\nd.update(x=1, y=2)\nd.pop('b')\nd |= {'z': 0}\n",
        '1:#1=dict[["a", 1]] d=#1 2:#1.set[["b", 2]] 3:#1.set[["a", 3]] 4:#1.remove["a"] 5:#1.set[["a", 4]] '
        '6:#1.set[["x", 1], ["y", 2]] 7:#1.remove["b"] 8:#1.set[["z", 0]]',
    ),
    "a set is told by what comes and goes": (
        "s = {3, 1}\ns.add(2)\ns.add(2)\ns -= {1, 3}\ns.update([5, 4])\ns ^= {4, 6}\n",
        "1:#1=set[1, 3] s=#1 2:#1.add[2] 3: 4:#1.discard[1, 3] 5:#1.add[4, 5] 6:#1.discard[4] #1.add[6]",
    ),
    "attributes in slots and in the dictionary are told alike": (
        "class P:\n    __slots__ = ('y', 'x')\n"
        "    __init__ = lambda self, x: setattr(self, 'x', x)\np = P(1)\np.y = 5\n"
        "del p.x\nclass Q: pass\nq = Q()\nq.p = p\nq.q = q\ndel q.p\n",
        '1: {2 P 1: 2:__slots__={tuple: ["y", "x"]} 3:__init__={function: "P.<lambda>"} ->null} #1=P{} P=#1 '
        '4:#2=P{} {3 P.<lambda> self=#2 x=1 3:#2.set[["x", 1]] ->null} p=#2 5:#2.replace{y: 5, x: 1} 6:#2.remove["x"] '
        "7: {4 Q 7: ->null} #3=Q{} Q=#3 8:#4=Q{} q=#4 "
        '9:#4.set[["p", #2]] 10:#4.set[["q", #4]] 11:#4.remove["p"]',
    ),
    "a class is an object, too": (
        "class P:\n    n = 0\nP.n += 1\nP.m = [P]\np = P()\np.__class__.n = 5\n",
        '1: {2 P 1: 2:n=0 ->null} #1=P{n: 0} P=#1 3:#1.set[["n", 1]] 4:#2=list[#1] #1.set[["m", #2]] 5:#3=P{} p=#3 '
        '6:#1.set[["n", 5]]',
    ),
    "a change is told where it is made, before a call on the same line": (
        "def show(x):\n    return x\ns = [1, 2]\nshow(s.pop())\nm = [3, 1, 2]\nm.sort(key=lambda v: -v)\n",
        '1:show={function: "show"} 3:#1=list[1, 2] s=#1 4:#1.splice start=1 removed=1[] {2 show x=2 2: ->2} '
        "5:#2=list[3, 1, 2] m=#2 6: {3 <lambda> v=3 6: ->-3} {4 <lambda> v=1 6: ->-1} {5 <lambda> v=2 6: ->-2} "
        "#2.set[[1, 2], [2, 1]]",
    ),
    "what is reached through calls and aliases is found": (
        "rows = [[0], [0]]\ndef row(i):\n    return rows[i]\nrow(1).append(5)\nby = {}\n"
        "by.setdefault('k', []).append(1)\n"
        "import heapq\nh = [3]\nheapq.heappush(h, 1)\n",
        '1:#2=list[0] #3=list[0] #1=list[#2, #3] rows=#1 2:row={function: "row"} 4: {2 row i=1 3: ->#3} '
        "#3.splice start=1 removed=0[5] 5:#4=dict[] by=#4 6:#5=list[1] #4.set[[\"k\", #5]] "
        '7:heapq={module: "heapq"} 8:#6=list[3] h=#6 9:#6.splice start=0 removed=0[1]',
    ),
    "other containers": (
        "import collections\nd = collections.deque([1, 2], maxlen=2)\nd.append(3)\nc = collections.Counter('aab')\n"
        "c['z'] += 1\nm = collections.defaultdict(list)\nm['k']\nb = bytearray(b'ab')\nb[0] = 65\n",
        '1:collections={module: "collections"} 2:#1=deque[1, 2] maxlen=2 d=#1 3:#1.set[[0, 2], [1, 3]] '
        '4:#2=Counter[["a", 2], ["b", 1]] c=#2 5:#2.set[["z", 1]] 6:#3=defaultdict[] m=#3 7:#4=list[] '
        '#3.set[["k", #4]] 8:#5=bytearray"6162" len=2 b=#5 9:#5.replace"4162" len=2',
    ),
    "a comprehension is part of its line": (
        "a = [x * 2 for x in range(3)]\nx = 5\nc = {x for x in a if x}\nd = {i: [j for j in range(i)] for i in a}\n",
        "1:#1=list[0, 2, 4] a=#1 2:x=5 3:#2=set[2, 4] c=#2 4:#4=list[] #5=list[0, 1] #6=list[0, 1, 2, 3] "
        "#3=dict[[0, #4], [2, #5], [4, #6]] d=#3",
    ),
    "a name that a comprehension assigns is the frame's": (
        "[k := v for v in range(3)]\n",
        "1:k=2",
    ),
    "a name that is deleted behind an except clause": (
        "try:\n    {}['k']\nexcept KeyError as e:\n    a = 1\n",
        '1: 2:raise KeyError("k") 3:e={opaque: "KeyError"} 4:del e a=1',
    ),
    "loops on one line begin it anew": (
        "n = 2\nwhile n: n -= 1\nfor i in 'ab': pass\n",
        '1:n=2 2:n=1 2:n=0 3:i="a" 3:i="b" 3:',
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_lines_tell_what_they_did(trace, name):
    source, expected = PROGRAMS[name]

    traced = trace(source)

    assert traced.short == f"{{1 <module> {expected} ->null}} end"


def test_values_are_written_without_running_code_of_the_program(trace):
    source = (
        "import decimal, enum, math\nclass E(enum.Enum):\n    A = 1\na = 2**53 - 1\nb = -2**53\nc = 10**400\n"
        "d = (1.0, 1e22, float('nan'), -float('inf'), 2j)\nf = (1, [2], (3,))\ng = frozenset({'b', 'a'})\n"
        "i = (len, [].append, ''.join, int, math, decimal.Decimal('1.5'), E.A, iter([]), None, True, range(2), b'ab')\n"
        "j = '\\ud800\\n'\nk = lambda: 0\nl = 'x' * 401\nm = (0,) * 40\n"
    )

    values = {r["name"]: r["v"] for r in trace(source).records if r["k"] == "set" and r["f"] == 1}

    assert {name: values[name] for name in "abcdfgijklm"} == {
        "a": 9007199254740991,
        "b": {"int": "-9007199254740992"},
        "c": {
            "int": {
                "bits": 1329,
                "sign": 1,
                "sha256": "59b3322acd15af4214946a8d4ab084c94a1f07bff70669909af599b9302a73e8",
            }
        },
        "d": {"tuple": [1.0, 1e22, {"float": "nan"}, {"float": "-inf"}, {"complex": [0.0, 2.0]}]},
        "f": {"tuple": [1, {"ref": 2}, {"tuple": [3]}]},
        "g": {"frozenset": ["a", "b"]},
        "i": {
            "tuple": [
                {"builtin": "len"},
                {"method": "append", "of": {"ref": 3}},
                {"method": "join", "of": ""},
                {"class": "int"},
                {"module": "math"},
                {"repr": "Decimal('1.5')", "type": "decimal.Decimal"},
                {"repr": "E.A", "type": "__main__.E"},
                {"opaque": "list_iterator"},
                None,
                True,
                {"range": [0, 2, 1]},
                {"bytes": {"len": 2, "hex": "6162"}},
            ]
        },
        "j": "\ud800\n",
        "k": {"function": "<lambda>"},
        "l": {
            "str": {
                "len": 401,
                "head": "x" * 200,
                "tail": "x" * 50,
                "sha256": "257d2e9bd85ba7902e8b8accd833319a4d78332321d320ef3aaa05270ee9f416",
            }
        },
        "m": {"tuple": [0] * 24, "tail": [0] * 4, "elided": 12},
    }


def test_large_containers_show_their_beginning_and_end(trace):
    records = trace("xs = list(range(1000))\nxs[3] = 0\nxs[500:700] = []\n").records

    described, changed, spliced = [r for r in records if r["k"] in ("object", "mutate")]
    assert described == {
        "k": "object",
        "id": 1,
        "type": "list",
        "items": list(range(150)),
        "tail": list(range(980, 1000)),
        "elided": 830,
    }
    assert changed == {"k": "mutate", "id": 1, "op": "set", "at": [[3, 0]]}
    assert spliced == {"k": "mutate", "id": 1, "op": "splice", "start": 500, "removed": 200, "items": []}


def test_one_event_describes_two_thousand_objects(trace):
    records = trace("x = [[[i] for i in range(60)] for j in range(60)]\n").records

    described = [r for r in records if r["k"] == "object"]
    stubs = [r for r in described if "elided" in r]
    assert len(described) - len(stubs) == 2000
    assert [len(stub["items"]) for stub in stubs] == [0] * (14 + 27)  # the last of one row, and the rows after it
    assert stubs[0] == {"k": "object", "id": 2001, "type": "list", "items": [], "elided": 1}


def test_an_object_of_a_base_class_is_seen_to_change_where_no_object_may_be_kept(trace):
    source = (
        "import gc\nclass B:\n    items = []\nclass C(B):\n    n = 0\n    def add(self):\n"
        "        type(self).n += 1; self.items.append(3)\ndel B\nC().add()\n"
    )

    assert "mutate" in [record["k"] for record in trace(source).records if record.get("items") == [3]]


NODE = """
class Node:
    pass
a, b = Node(), Node()
a.next, b.next = {first}, None
"""


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        ("m = {'x': [1]}\nk = m['x']\nm['x'].append(2); m['x'] = 0", "#2.splice start=1 removed=0[2]"),
        ("m = {'x': [1]}\nm['x'].append(2); m['y'] = m['x']; m['x'] = 0", "#2.splice start=1 removed=0[2]"),
        (
            "m = {'x': {'y': [1]}}\nk = m['x']['y']\nm['x']['y'].append(str(2)); m['x'] = 0",
            '#3.splice start=1 removed=0["2"]',
        ),
        ("k = m = [1]\nm += [2]; m = 0", "#1.splice start=1 removed=0[2]"),
        (NODE.format(first="b") + "a.next.next, a.next = a, None", '#3.set[["next", #2]]'),
        (NODE.format(first="a") + "a.next.next = b", '#2.set[["next", #3]]'),
    ],
)
def test_what_a_line_changes_is_told_even_if_the_line_cuts_it_off_then(trace, source, changed):
    """The path of an object is followed after the line, when it may lead elsewhere."""
    assert changed in trace(source).short.splitlines()[-1]
