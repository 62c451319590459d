"""The page as its reader has it: opened in a browser, with keys, mouse and eyes."""

import contextlib

import pytest

from groundbox.testing.traces import CALL, body, read, written
from groundbox.trace.show.page import html as page_of

pytestmark = pytest.mark.slow

PROGRAM = """\
class Node:
    def __init__(self, value, after=None):
        self.value, self.after = value, after

def length(node):
    count = 0
    while node is not None:
        node, count = node.after, count + 1
    return count

def letters():
    yield "a"
    yield "é\\u202e"

chain = Node(1, Node(2))
print("length", length(chain))
pairs = {"x": [1.0, 2j], (1,): b"\\0"}
found = list(letters())
try:
    found[9]
except IndexError as error:
    message = str(error)
del chain
"""
LOOPS = "total = 0\nfor i in range(40):\n    for j in range(9):\n        total += i * j\nprint(total)\n"
# Names and values of each frame, the innermost first, without functions and classes.
SHOWN = """
[...document.querySelectorAll(".frame")].map((frame) => [...frame.querySelectorAll("tr:not(.defined)")].map(
  (row) => `${row.cells[0].textContent}=${row.cells[1].textContent}`).filter((row) => !/=<(function|class) /.test(row)))
"""
DATA = "JSON.parse(document.getElementById('trace').textContent)"
COUNT = "document.getElementById('count').textContent"
WHERE = "document.getElementById('where').textContent"


@pytest.fixture
def opened(browser, tmp_path):
    """Opens the page of a trace; fails at the end if the browser had anything to complain of, or to fetch."""
    path, pages = tmp_path / "trace.html", []
    with contextlib.ExitStack() as stack:

        def open_page(trace, **media):
            path.write_text(page_of(trace), encoding="utf-8")
            pages.append(stack.enter_context(browser.page(path, **media)))
            return pages[-1]

        yield open_page
        for page in pages:
            assert (page.complaints, page.requests) == ([], [path.as_uri()])


def expected(trace, t, frame):
    """The names of the frame that runs and of those that called it, as Python has them."""
    state, shown = trace.state_at(t), []
    while frame:
        values = [(name, state.text(value, 10**6)) for name, value in state.names(frame).items()]
        shown.append([f"{name}={text}" for name, text in values if not text.startswith(("<function ", "<class "))])
        frame = state.frames[frame].parent
    return shown


def test_each_step_shows_the_names_that_the_trace_has_there(opened, recorded):
    trace = recorded(PROGRAM)
    page = opened(trace)
    stops = [stop for stop in page.evaluate(f"{DATA}.positions") if stop[3] != "end"]

    for number, (t, frame, line, kind) in enumerate(stops, 1):
        told = expected(trace, t, frame)
        assert page.evaluate(COUNT) == f"{number} / {len(stops) + 1}"
        assert page.evaluate(SHOWN)[: len(told)] == told, (t, kind)
        marked = page.evaluate("document.querySelector('.row.now, .row.failed').querySelector('.number').textContent")
        assert (marked, kind == "line") == (str(line), page.evaluate(WHERE).startswith(f"line {line} of"))
        page.press("ArrowRight")

    assert page.evaluate(WHERE) == "the program has ended"
    assert page.evaluate("document.getElementById('output').textContent") == "length 2\n"


def test_keys_buttons_lines_and_the_slider_lead_to_steps(opened, recorded):
    page = opened(recorded("def f(n):\n    return n\n\nf(1)\nf(2)\nx = 3\n"))
    seen = []

    def after(act, *arguments):
        act(*arguments)
        seen.append(page.evaluate(COUNT).partition(" ")[0])

    for key in ("End", "ArrowLeft", "Home", "ArrowRight", "ArrowDown", "ArrowUp"):
        after(page.press, key)
    for button in ("last", "first", "on", "over", "over-back", "back"):
        after(page.click, f"#{button}")
    after(page.click, ".row:nth-child(6)")
    page.evaluate("document.getElementById('slider').focus()")
    after(page.press, "ArrowLeft")
    moved = "new Promise((done) => { addEventListener('hashchange', () => done()); location.hash = '#0'; })"
    after(page.evaluate, moved)

    assert seen == ["10", "9", "1", "2", "5", "2", "10", "1", "2", "5", "2", "1", "8", "7", "1"]


def test_folded_loops_unfold(opened, recorded):
    page = opened(recorded(LOOPS))
    few = int(page.evaluate(COUNT).split()[-1])

    for _ in range(few):
        if page.evaluate("document.getElementById('notice').checkVisibility()"):
            break
        page.press("ArrowRight")
    notice = page.evaluate("document.getElementById('notice').textContent")
    page.click("#notice button")
    inside = page.evaluate(SHOWN)
    some = int(page.evaluate(COUNT).split()[-1])
    page.click("#fold")
    all_steps = int(page.evaluate(COUNT).split()[-1])

    assert "more iterations of line" in notice
    assert inside[0][1:] == ["i=0", "j=1"]
    assert few < some < all_steps == 1 + 41 + 40 * (10 + 9) + 1 + 2


def test_the_tree_of_the_run_marks_where_its_reader_is(opened, recorded):
    page, here = opened(recorded(LOOPS)), "document.querySelector('#outline .here').textContent"

    seen = [page.evaluate(here)]
    page.evaluate("document.querySelector('#on').focus()")
    for _ in range(7):
        page.press("ArrowRight")
    seen.append(page.evaluate(here))
    page.click("#outline .here")
    seen.append(page.evaluate(f"new Promise((done) => requestAnimationFrame(() => setTimeout(() => done({here}))))"))
    page.press("End")
    seen.append(page.evaluate(here))

    assert seen == ["1total = 0", "2for i in range(40):   40×, exhausted", "iteration 1", "5print(total)"]


def test_what_is_left_out_is_counted(opened, recorded):
    chain = "chain = None\nfor n in range(80):\n    chain = [n, chain]\n"
    page = opened(recorded(chain + "word = 'ab' * 199\nwords = [word] * 3\n"))

    page.press("End")
    cut = page.evaluate("[...document.querySelectorAll('.value')].at(-1).innerText")
    page.evaluate("[...document.querySelectorAll('.rest')].at(-1).click()")
    whole = page.evaluate("[...document.querySelectorAll('.value')].at(-1).innerText")

    assert page.evaluate("document.getElementById('graph').innerText").endswith("… 21 more objects …")
    assert whole == str(["ab" * 199] * 3)
    assert cut == whole[:399] + f"…{len(whole) - 399} more characters"


HOSTILE = (
    "</script></noscript><img src=https://example.org/x onerror=\"document.title='lost'\">"
    "<style>*{display:none}</style>\u202e"
)


def test_text_of_the_guest_stays_text(opened):
    trace = written(
        {"k": "line", "f": 1, "n": 1},
        {"k": "set", "f": 1, "name": HOSTILE, "v": HOSTILE},
        {"k": "object", "id": 1, "type": "object", "class": HOSTILE, "attrs": {HOSTILE: HOSTILE, "__proto__": 1}},
        {"k": "set", "f": 1, "name": "constructor", "v": {"ref": 1}},
        {"k": "out", "s": 1, "text": HOSTILE},
        {"k": "raise", "f": 1, "n": 1, "type": HOSTILE, "args": [HOSTILE]},
        source=f"x = 1 # {HOSTILE}\n",
        filename=HOSTILE,
    )
    page = opened(trace)

    page.press("End")
    page.press("ArrowLeft")

    assert page.evaluate("document.title").startswith("</script>")
    assert page.evaluate("[document.images.length, document.scripts.length, document.styleSheets.length]") == [0, 2, 1]
    assert page.evaluate("getComputedStyle(document.querySelector('main')).display") == "grid"
    assert "x = 1 # </script>" in page.evaluate("document.getElementById('source').innerText")
    assert "\u202e" not in page.evaluate("document.body.innerText")


def test_the_policy_keeps_the_page_from_reaching_anything(browser, tmp_path):
    path = tmp_path / "trace.html"
    path.write_text(page_of(written()), encoding="utf-8")
    tried = """
        (async () => {
          const refused = [];
          addEventListener("securitypolicyviolation", (event) => refused.push(event.effectiveDirective));
          const add = (name, values) => document.body.append(Object.assign(document.createElement(name), values));
          add("script", { textContent: "document.title = 'lost'" });
          add("style", { textContent: "* { display: none }" });
          await new Promise((done) => add("img", { src: "https://example.org/x", onerror: done, onload: done }));
          await fetch("https://example.org/x").catch(() => {});
          await new Promise((done) => setTimeout(done));
          return refused.sort();
        })()"""

    with browser.page(path) as page:
        assert page.evaluate(tried) == ["connect-src", "img-src", "script-src-elem", "style-src-elem"]
        assert "lost" not in page.evaluate("document.title")


@pytest.mark.parametrize("width", [400, 1600])
def test_nothing_is_out_of_reach_in_a_window_of_any_width(opened, recorded, width):
    page = opened(recorded(LOOPS + f"words = {'long ' * 60!r}\n"))

    page.resize(width)
    page.press("End")

    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("document.querySelector('.value').getBoundingClientRect().right") < width


def test_light_and_dark_are_those_of_the_reader_until_the_button_chooses(opened):
    page, paper = opened(written(), prefers_color_scheme="dark"), "getComputedStyle(document.body).backgroundColor"

    seen = [page.evaluate(paper)]
    page.click("#theme")
    seen.append(page.evaluate(paper))

    assert seen == ["rgb(22, 24, 27)", "rgb(251, 251, 249)"]


def test_every_control_has_a_name_in_words(opened, recorded):
    page = opened(recorded(LOOPS))

    nodes = page.call("Accessibility.getFullAXTree")["nodes"]

    controls = ("button", "checkbox", "slider", "DisclosureTriangle")
    names = [node["name"]["value"] for node in nodes if node["role"]["value"] in controls and not node["ignored"]]
    assert len(names) > 9
    assert [name for name in names if not any(letter.isalpha() for letter in name)] == []


def test_a_failure_is_marked_where_it_came_up(opened):
    raised = {"k": "raise", "f": 1, "n": 2, "type": "ZeroDivisionError", "args": ["division by zero"]}
    lines = [{"k": "line", "f": 1, "n": 1}, {"k": "line", "f": 1, "n": 2}, raised, {"k": "unwind", "f": 1, "n": 2}]
    page = opened(read(body(CALL, *lines, {"k": "end"}), source="x = 0\n1 / x\n", outcome="error"))

    page.press("End")

    assert page.evaluate(WHERE) == "the program has ended: ZeroDivisionError('division by zero') at line 2"
    assert page.evaluate("document.querySelector('.row.failed .number').textContent") == "2"


CALLED = """\
def total_of_everything_that_was_sold_anywhere(prices, rates):
    return sum(price * rates.get(name, 1) for name, price in sorted(prices.items()) if price > 0)

def main(prices):
    total = total_of_everything_that_was_sold_anywhere(prices, {"bread": 2, "a name that makes this line long": 3})
    return [total]
"""


def test_what_calls_returned_is_told_where_they_were_made_and_at_the_end(opened, recorded):
    page = opened(recorded(CALLED, "main", {"bread": 2, "tea": 5}))
    note = "document.querySelector('.row.was .note').textContent"

    for _ in range(40):
        if page.evaluate(WHERE) == "line 5 of main is about to run":
            break
        page.press("ArrowRight")
    page.press("ArrowDown")
    told, where = page.evaluate(note), page.evaluate(WHERE)
    page.press("End")

    assert (told, where) == (
        "total_of_everything_that_was_sold_anywhere() returned 9; total = 9",
        "line 6 of main is about to run",
    )
    assert page.evaluate(WHERE) == "the program has ended: main returned [9]"


@pytest.mark.parametrize("width", [390, 1280])
def test_what_a_line_did_covers_none_of_the_source(opened, recorded, width):
    page = opened(recorded(CALLED, "main", {"bread": 2, "tea": 5}))
    page.resize(width)
    apart = """
        [...document.querySelectorAll(".row")].every((row) => {
          const text = row.querySelector(".text").getBoundingClientRect(), note = row.lastChild.getBoundingClientRect();
          return !note.width || note.left >= text.right - 1 || note.top >= text.bottom - 1;
        })"""
    seen = set()

    for _ in range(int(page.evaluate(COUNT).split()[-1])):
        seen.add(page.evaluate(apart))
        page.press("ArrowRight")

    assert seen == {True}


TABLES = """\
import array
rows = [{"name": "a", "age": 3}, {"name": "b", "age": 5}]
matrix = [[1, 2], [3, 4], [5, 6]]
first = [[1, 2], [3, 4]]
alias = first[0]
matrix[1][0] = 9
done = True
"""


def test_rows_of_one_kind_are_shown_as_tables(opened, recorded):
    page = opened(recorded(TABLES))
    shown = """
        [...document.querySelectorAll("figure")].map((figure) => [figure.querySelector("figcaption").innerText,
          ...[...figure.querySelectorAll("tr")].map((row) => [...row.cells].map((one) => one.innerText).join("|"))])"""

    page.press("End")
    page.press("ArrowLeft")
    page.press("ArrowLeft")
    tables = page.evaluate(shown)

    assert tables == [
        ["rows 2 × 2", "|name|age", "0|a|3", "1|b|5"],
        ["matrix 3 × 2", "|0|1", "0|1|2", "1|9|4", "2|5|6"],
    ]
    assert "first" in page.evaluate("document.getElementById('graph').textContent")


def grown(count):
    """A trace in which a dict and a list grow, so that each moment has more to be shown."""
    records = [
        {"k": "object", "id": 1, "type": "dict", "pairs": []},
        {"k": "object", "id": 2, "type": "list", "items": []},
        {"k": "set", "f": 1, "name": "seen", "v": {"ref": 1}},
        {"k": "set", "f": 1, "name": "items", "v": {"ref": 2}},
    ]
    for number in range(count):
        records += [
            {"k": "line", "f": 1, "n": 1},
            {"k": "mutate", "id": 1, "op": "set", "at": [[number, number]]},
            {"k": "mutate", "id": 2, "op": "splice", "start": number, "removed": 0, "items": [number]},
        ]
    return written(*records)


def test_the_time_to_a_moment_grows_with_the_steps_and_not_with_their_square(opened):
    key = "document.dispatchEvent(new KeyboardEvent('keydown', { key: 'End' }))"
    taken = f"(() => {{ const begun = performance.now(); {key}; return performance.now() - begun; }})()"

    few, many = (opened(grown(count)).evaluate(taken) for count in (3_000, 48_000))

    assert many < 80 * few  # 16 times the steps; the square would be 256


def test_any_moment_is_the_same_whichever_way_it_is_come_to(opened, recorded):
    trace = recorded(
        "seen, items, kinds = {}, [], set()\n"
        "for i in range(900):\n"
        "    seen[i % 7] = i\n"
        "    items.append(i)\n"
        "    kinds.add(i % 11)\n"
        "    if i % 5 == 4:\n"
        "        del items[0], seen[i % 7]\n"
    )
    page = opened(trace)
    page.click("#fold")
    last = int(page.evaluate(COUNT).split()[-1]) - 1
    stops = page.evaluate(f"{DATA}.positions")

    for at in (last // 2, 3, last - 5, last // 2 + 700, last // 2 - 1, last // 3, last // 3 - 1, 0, last - 1):
        go = f"const s = document.getElementById('slider'); s.value = {at}; s.dispatchEvent(new Event('input'))"
        page.evaluate(f"(() => {{ {go} }})()")
        t, frame, _, _ = stops[at]
        names = dict(name.split("=", 1) for name in page.evaluate(SHOWN)[0])
        state = trace.state_at(t)
        told = {name: state.text(value, 10**6) for name, value in state.names(frame).items()}
        assert {name: names[name] for name in ("seen", "kinds", "i") if name in told} == {
            name: told[name] for name in ("seen", "kinds", "i") if name in told
        }


def test_a_page_of_nothing_says_so(opened):
    page = opened(read(b"", source="def f(:\n", outcome="error"))

    assert page.evaluate(WHERE) == "nothing was recorded, the program ended with: error"
    assert "This trace is not complete" in page.evaluate("document.getElementById('notice').innerText")
    assert page.evaluate("[...document.querySelectorAll('.steps button, #slider')].every((each) => each.disabled)")


def test_without_its_script_the_page_says_what_to_do(browser, tmp_path):
    path = tmp_path / "trace.html"
    path.write_text(page_of(written()), encoding="utf-8")

    with browser.page(path) as page:
        page.call("Emulation.setScriptExecutionDisabled", value=True)
        page.open(path.as_uri())
        shown = page.call("Accessibility.getFullAXTree")["nodes"]

    text = " ".join(node["name"]["value"] for node in shown if node["role"]["value"] == "StaticText")
    assert text.startswith("main.py This page rebuilds the run with its own script")
    assert "groundbox trace PROGRAM --form terminal" in text
