"""The page: one file that runs and sends nothing but its own script."""

import base64
import hashlib
import html
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from groundbox.testing.traces import written
from groundbox.trace.show import page as page_module
from groundbox.trace.show.page import html as page_of

PAGE = Path(page_module.__file__).with_name("page_assets")
HOSTILE = "</script><script>alert(1)</script><!--<img src=x onerror=alert(1)>\u2028&amp;'\"\x00\ud800"


class Elements(HTMLParser):
    """Start tags with their attributes, and the text in each `script` and `style`."""

    def __init__(self):
        super().__init__()
        self.tags, self.texts, self._text = [], [], None

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._text = [] if tag in ("script", "style") else None

    def handle_data(self, data):
        if self._text is not None:
            self._text.append(data)

    def handle_endtag(self, tag):
        if self._text is not None:
            self.texts.append((self.tags[-1], "".join(self._text)))
        self._text = None


def parsed(page):
    elements = Elements()
    elements.feed(page)
    return elements


def hostile():
    return written(
        {"k": "line", "f": 1, "n": 1},
        {"k": "set", "f": 1, "name": HOSTILE, "v": HOSTILE},
        {"k": "object", "id": 1, "type": "object", "class": HOSTILE, "attrs": {HOSTILE: 1.0}},
        {"k": "set", "f": 1, "name": "o", "v": {"ref": 1}},
        {"k": "out", "s": 1, "text": HOSTILE},
        {"k": "raise", "f": 1, "n": 1, "type": HOSTILE},
        source="x = 1 # " + HOSTILE.replace("\x00", "") + "\n",
        filename=HOSTILE,
    )


def data_of(page):
    (text,) = [data for (_, attrs), data in parsed(page).texts if attrs.get("type") == "application/json"]
    return json.loads(text)


def test_text_of_the_guest_makes_no_element():
    plain, page = page_of(written()), page_of(hostile())

    assert [tag for tag, _ in parsed(page).tags] == [tag for tag, _ in parsed(plain).tags]
    assert data_of(page)["records"][2]["v"] == HOSTILE
    assert data_of(page)["lines"][0].startswith("x = 1 # </script>")


def test_the_policy_allows_the_pages_own_script_and_style_and_nothing_else():
    elements = parsed(page_of(hostile()))
    (policy,) = [
        attrs["content"] for tag, attrs in elements.tags if attrs.get("http-equiv") == "Content-Security-Policy"
    ]
    allowed = dict(part.split(" ", 1) for part in policy.split("; "))

    def digest(text):
        return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"

    found = {tag: digest(data) for (tag, attrs), data in elements.texts if not attrs}
    assert allowed == {
        "default-src": "'none'",
        "script-src": found["script"],
        "style-src": found["style"],
        "base-uri": "'none'",
        "form-action": "'none'",
    }


def test_the_page_names_nothing_outside_of_itself():
    page = page_of(written(source="x = 1\n"))

    attributes = [value for _, attrs in parsed(page).tags for name, value in attrs.items() if name in ("src", "href")]
    assert attributes == []
    assert set(re.findall(r"https?://[^\"' ]+", page)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|fetch\(|XMLHttp", page
    )


def test_the_title_is_escaped():
    page = page_of(written(), title="<b>&")

    assert f"<title>{html.escape('<b>&')} – trace</title>" in page


def test_floats_stay_floats():
    data = data_of(page_of(written({"k": "set", "f": 1, "name": "x", "v": {"tuple": [1.0, 1, -0.0]}})))

    assert data["records"][1]["v"] == {"tuple": [{"float": "1.0"}, 1, {"float": "-0.0"}]}


@pytest.fixture(scope="module")
def page(traced):
    return data_of(page_of(traced("def f(n):\n    return n\nfor i in range(9):\n    f(i)\n")))


def test_the_page_stops_at_steps_and_where_frames_give_values(page):
    kinds = [kind for _, _, _, kind in page["positions"]]

    assert (kinds[0], kinds[-1], kinds.count("line"), kinds.count("return")) == ("line", "end", 29, 10)


def test_the_page_folds_what_the_texts_fold(page):
    assert [span[2] for span in page["spans"]] == ["… 6 more iterations of line 3 (18 steps) …"]


def test_the_page_has_the_tree_without_nesting_calls_in_calls(page):
    module = page["activations"]["1"]
    kinds = [node[0] for node in module["body"]]

    assert (module["name"], kinds, page["roots"]) == ("<module>", ["step", "loop"], [1])
    assert page["activations"]["2"]["body"] == [["step", page["activations"]["2"]["first"] + 1, 2, None, []]]


PROGRAM = """\
from collections import Counter, deque

class Node:
    made = 0
    def __init__(self, value, next=None):
        self.value, self.next = value, next
        Node.made += 1

def outer():
    count = 0
    def inner(step):
        nonlocal count
        count += step
        return count
    return [inner(n) for n in range(3)], (n for n in "ab")

head = Node(1, Node("it's"))
head.next.next = head
rows = list(range(300))
rows[160] = "middle"
rows.insert(1, 2.5)
del rows[-1]
words = Counter("mississippi")
del words["m"]
seen = {3, 1, 2}
seen.discard(1)
seen.add("x")
line = deque([1, 2], maxlen=3)
line.append((1, [2], {"k": None}))
made, letters = outer()
first = next(letters)
big = [10 ** 20, 1e300, float("nan"), True, b"bytes", range(3), len, "long " * 200]
numbers = [3 - 4j, 2j, complex(-0.0, float("inf")), -10 ** 500, frozenset(), frozenset({1}), range(10, 0, -2), 0.1 + 0j]
texts = ["\\x00\\x7f\\xa0\\u200b\\u202e\\ud800 \\U000e0001 \\u00e9 'both\\""]
raw = [b"\\x00'\\n\\\\ff\\xff", bytes(300), bytearray(b"a'b")]

class Stack(list):
    pass

class Empty(dict):
    pass

stack = Stack([1])
stack.limit = 2
empty, odd = Empty(), type("odd\\u202e\\n", (), {})()
setattr(odd, "an\\tattribute", 1)
wide = type("Wide", (), {})()
wide.__dict__.update((f"name_{n}", n) for n in range(230))
"""
CHECK = """
const player = new Player(data.records);
const texts = data.records.map((_, t) => {
  const state = player.at(t);
  const shown = (frame) => [...frame.names].map(([name, value]) => `${name}=${valueText(state, value, 60)}`);
  return [...state.frames.values()].map(shown);
});
console.log(JSON.stringify(texts));
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node, to run the page's script without a browser")
def test_the_page_rebuilds_the_states_that_the_trace_has(traced, tmp_path):
    trace = traced(PROGRAM)
    scripts = "\n".join((PAGE / name).read_text() for name in ("state.js", "values.js"))
    scripts = scripts.replace("const MOST_ITEMS = 60;", "const MOST_ITEMS = 1e6;")
    (tmp_path / "check.js").write_text(f"const data = {json.dumps(data_of(page_of(trace)))};\n{scripts}\n{CHECK}")

    ran = subprocess.run(["node", tmp_path / "check.js"], capture_output=True, text=True, check=True)

    shown = json.loads(ran.stdout)
    for t in range(len(trace)):
        state = trace.state_at(t)
        expected = [[f"{name}={state.text(v, 10**6)}" for name, v in state.names(f).items()] for f in state.frames]
        assert shown[t] == expected, t
