"""The console as people use it: programs, what they show, files, steps, history, by mouse and by keyboard."""

import json
import re

import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed here: make clients")
expect = playwright.expect

PHONE = {"width": 390, "height": 844}


def test_somebody_logs_in_by_the_form_and_out_again(opened, server):
    page = opened().page
    page.goto(server.url)
    page.get_by_label("Key").fill("wrong")
    page.get_by_role("button", name="Log in").click()
    told = page.get_by_role("alert").inner_text()
    page.get_by_label("Key").fill(server.token)
    page.keyboard.press("Enter")
    page.locator("html[data-ready]").wait_for(state="attached")
    inside = (page.url, page.evaluate("document.cookie"))

    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_label("Key")).to_be_focused()
    page.reload()

    assert told == "That key is not known here."
    assert inside == (f"{server.url}/", "")
    expect(page.get_by_label("Key")).to_be_visible()


def test_a_program_runs_and_its_output_is_seen(console):
    cell = console.run("print('hello', 6 * 7)\n'the value'")

    assert cell.locator(".printed").inner_text() == "hello 42\n"
    assert cell.locator(".value").inner_text() == "'the value'"
    assert cell.locator(".outcome").inner_text() == "Done"


def test_the_first_run_makes_a_sandbox(opened, client):
    console = opened(sandbox=False).enter()
    expect(console.page.locator("#name")).to_have_text("New sandbox")

    console.run("print('made')")

    [made] = client.get("/v1/sandboxes").json()["sandboxes"]
    assert (made["labels"], made["runs"]) == ({"name": "Sandbox 1"}, 1)
    expect(console.page.locator("#name")).to_have_text("Sandbox 1")


def test_output_is_seen_while_the_program_runs(console):
    cell = console.begin("import time\nprint('first', flush=True)\ntime.sleep(20)\nprint('second')")

    expect(cell.locator(".printed")).to_have_text("first\n", timeout=60_000)
    assert cell.get_attribute("data-outcome") is None
    console.page.locator("#interrupt").click()
    console.ended(cell)


def test_a_progress_bar_is_drawn_over_and_nothing_unseen_acts(console):
    cell = console.run(r"print('10 %\r50 %\r100 %'); print('\x1b[31mred\x1b[0m \u202eabc\x07')")

    assert cell.locator(".printed").text_content() == "100 %\nred \\u202eabc\\x07\n"


def test_variables_stay_and_sandboxes_are_told_with_their_figures(console):
    console.run("x = 41")

    cell = console.run("x + 1")

    assert cell.locator(".value").inner_text() == "42"
    assert console.page.locator("#sandboxes li").count() == 1
    expect(console.page.locator("#use-memory")).to_have_text(re.compile(r"[\d.]+ (K|M)iB of 2\.0 GiB"))
    expect(console.page.locator("#use-processes")).to_have_text(re.compile(r"\d+"))
    expect(console.page.locator("#curves canvas")).to_have_count(1)


def test_a_picture_is_seen(console):
    cell = console.run("import matplotlib.pyplot as plt\nplt.plot([1, 3, 2])\nplt.show()")

    image = cell.locator(".picture img")
    assert image.get_attribute("src").startswith("data:image/png;base64,")
    assert image.evaluate("image => image.decode().then(() => image.naturalWidth)") > 100


def test_a_diagram_is_a_picture(console):
    cell = console.run("digraph { a -> b }", "dot")

    image = cell.locator(".picture img")
    assert image.get_attribute("src").startswith("data:image/svg+xml;base64,")
    assert image.evaluate("image => image.decode().then(() => image.naturalWidth)") > 10


def test_a_chart_of_plotly_moves(console):
    program = "import plotly.graph_objects as go\ngo.Figure(go.Scatter(x=[0, 10], y=[0, 5]))"
    cell = console.run(program)
    cell.locator(".chart[data-drawn]").wait_for()
    frame = console.frame("chart")
    at = "document.getElementById('chart').layout.xaxis.range"
    before = frame.evaluate(at)

    box = cell.locator("iframe").bounding_box()
    mouse = console.page.mouse
    mouse.move(box["x"] + box["width"] * 0.4, box["y"] + 200)
    mouse.down()
    mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 205, steps=5)
    mouse.up()
    console.page.wait_for_timeout(1000)

    after = frame.evaluate(at)
    assert before[0] < after[0] < after[1] < before[1]


def test_a_chart_that_is_not_drawn_here_says_so_and_shows_another_form(console):
    cell = console.run("import plotly.graph_objects as go\ngo.Figure(go.Scatter3d(x=[1], y=[2], z=[3]))")

    expect(cell.locator(".chart p")).to_have_text("Charts of the kind scatter3d are not drawn here.")
    expect(cell.locator(".chart img")).to_have_attribute("alt", "plotly figure: 1 scatter3d")


def test_a_table_sorts(console):
    cell = console.run("import pandas as pd\npd.DataFrame({'n': [10, 9, None, 100], 'word': ['b', '=1+1', 'a', 'c']})")

    def column(number):
        return cell.locator(f"tbody td:nth-child({number})").all_inner_texts()

    as_given = column(1)
    cell.get_by_role("button", name="n", exact=True).click()
    rising = column(1)
    cell.get_by_role("button", name="n", exact=True).click()
    falling = column(1)
    cell.get_by_role("button", name="word").click()
    words = column(2)

    assert as_given == ["10", "9", "none", "100"]
    assert rising == ["9", "10", "100", "none"]
    assert falling == ["100", "10", "9", "none"]
    assert sorted(words) == ["=1+1", "a", "b", "c"]
    assert cell.locator("th[aria-sort]").inner_text() == "word"
    assert cell.locator(".table .quiet").inner_text() == "4 rows, 2 columns"


def test_sql_asks_the_variables_of_python(console):
    console.run("import pandas as pd\nsales = pd.DataFrame({'city': ['Oslo', 'Lima'], 'sum': [3, 4]})")

    cell = console.run("SELECT city FROM sales WHERE sum > 3", "sql")

    assert cell.locator("tbody").inner_text() == "Lima"


def test_files_go_in_and_come_out(console, tmp_path):
    console.run("1")
    console.page.locator("#chosen-files").set_input_files(
        {"name": "a b.txt", "mimeType": "text/plain", "buffer": b"from outside"}
    )
    expect(console.page.locator("#files a")).to_have_text("a b.txt")

    cell = console.run("open('back.txt', 'w').write(open('a b.txt').read().upper())")
    with console.page.expect_download() as begun:
        cell.locator(".artifacts a").click()
    with console.page.expect_download() as begun_too:
        console.page.locator("#files a", has_text="a b.txt").click()

    assert begun.value.path().read_bytes() == b"FROM OUTSIDE"
    assert (begun_too.value.suggested_filename, begun_too.value.path().read_bytes()) == ("a b.txt", b"from outside")


def test_files_are_dropped_in_and_deleted(console):
    console.page.on("dialog", lambda dialog: dialog.accept())
    moved = console.page.evaluate_handle(
        "() => { const moved = new DataTransfer(); moved.items.add(new File(['x,y'], 'data.csv')); return moved; }"
    )

    console.page.dispatch_event("#runs", "drop", {"dataTransfer": moved})
    expect(console.page.locator("#files a")).to_have_text("data.csv")
    cell = console.run("print(open('data.csv').read())")
    console.page.get_by_role("button", name="Delete data.csv").click()

    assert cell.locator(".printed").inner_text() == "x,y\n"
    expect(console.page.locator("#files li")).to_have_count(0)


def test_an_interrupt_stops_the_program_and_variables_stay(console):
    console.run("x = 7")
    cell = console.begin("while True: pass")
    expect(console.page.locator("#interrupt")).to_be_enabled()
    console.page.wait_for_timeout(500)

    console.page.locator("#interrupt").click()

    assert console.ended(cell) == "cancelled"
    assert "KeyboardInterrupt" in cell.locator(".failure").inner_text()
    assert console.run("x").locator(".value").inner_text() == "7"


def test_a_program_that_ignores_interrupts_is_stopped(console):
    stubborn = "import time\nwhile True:\n    try:\n        time.sleep(1)\n    except KeyboardInterrupt:\n        pass"
    cell = console.begin(stubborn)
    console.page.wait_for_timeout(1000)

    console.page.locator("#interrupt").click()
    expect(console.page.locator("#interrupt")).to_have_text("Stop")
    console.page.locator("#interrupt").click()

    assert console.ended(cell) == "refused"
    again = console.run("print('again')")
    assert again.locator(".printed").inner_text() == "again\n"


def test_a_terminal_is_typed_in_left_and_found_again(console):
    page = console.page
    console.run("open('made.txt', 'w').write('by the program')")
    page.get_by_role("button", name="Terminal").click()
    screen = page.frame_locator("#terminal iframe").locator(".xterm-rows")
    expect(screen).to_contain_text("$")

    page.keyboard.type("cat made.txt; kept=4; tput cols\n")
    expect(screen).to_contain_text("by the program")
    page.keyboard.press("Control+.")
    focus = page.evaluate("document.activeElement.id")
    page.keyboard.press("Enter")
    expect(page.locator("#terminal")).to_be_hidden()
    page.get_by_role("button", name="Terminal").click()
    expect(screen).to_contain_text("$")
    page.keyboard.type("echo $((kept + 1))0\n")
    expect(screen).to_contain_text("50")
    page.keyboard.type("exit\n")

    assert focus == "open-terminal"
    expect(page.locator("#terminal p")).to_have_text("The shell has ended. Open again")


def test_a_failure_is_told_with_hint_values_and_receipt(console):
    cell = console.run("prices = {'tea': 3}\nprices['te']")

    told = cell.locator(".failure").inner_text()
    assert "KeyError: 'te' (line 2)" in told
    assert "prices" in cell.locator(".locals").inner_text()
    assert cell.locator(".hint").count() >= 1
    cell.locator(".receipt summary").click()
    receipt = cell.locator(".receipt dl").inner_text()
    assert "namespaces: " in receipt
    assert "seccomp" in receipt


def test_warnings_are_told(console):
    cell = console.run("open('/tmp/result.csv', 'w').write('a,b')\nNone")

    assert "run.file_outside" in cell.locator(".warning").inner_text()


def test_the_trace_is_stepped_through_with_its_variables(console):
    console.page.locator("#trace").check()
    cell = console.run("def double(n):\n    return 2 * n\n\nitems = []\nfor n in (1, 2):\n    items.append(double(n))")

    cell.get_by_role("button", name="Steps").click()
    page = console.page
    page.locator("#steps[open]").wait_for()
    seen = []
    for _ in range(6):
        line = page.locator("#step-source [aria-current]").evaluate(
            "item => [...item.parentNode.children].indexOf(item) + 1"
        )
        seen.append(line)
        page.keyboard.press("ArrowRight")
    stack = page.locator("#step-stack").inner_text()
    page.get_by_role("button", name="Last step").click()
    variables = page.locator("#step-variables").inner_text()

    assert seen == [1, 4, 5, 6, 2, 5]
    assert stack == "About to run line 6"
    assert re.search(r"items\s+\[2, 4\]", variables)
    assert page.locator("#step-number").inner_text() == "end"


def test_runs_are_there_again_after_the_page_was_left_and_in_the_history(console):
    console.run("print('kept')")
    console.page.reload()
    console.page.locator("html[data-ready]").wait_for(state="attached")

    again = console.page.locator("#cells > .cell").last
    console.page.locator("#open-history").click()
    console.page.locator("#past button").first.click()

    assert again.locator(".printed").text_content() == "kept\n"
    assert again.locator(".source").inner_text() == "print('kept')"
    expect(console.page.locator("#past-run .printed")).to_have_text("kept\n")


def test_runs_are_downloaded_as_a_notebook(console):
    console.run("print('hi')\n6 * 7")
    console.run("1 / 0")

    with console.page.expect_download() as begun:
        console.page.locator("#save-notebook").click()
    written = json.loads(begun.value.path().read_text())

    assert begun.value.suggested_filename == "sandbox-1.ipynb"
    assert (written["nbformat"], written["nbformat_minor"]) == (4, 5)
    assert ["".join(cell["source"]) for cell in written["cells"]] == ["print('hi')\n6 * 7", "1 / 0"]
    assert written["cells"][0]["outputs"] == [
        {"output_type": "stream", "name": "stdout", "text": ["hi\n"]},
        {"output_type": "execute_result", "execution_count": 1, "data": {"text/plain": "42"}, "metadata": {}},
    ]
    assert written["cells"][1]["outputs"][0]["ename"] == "ZeroDivisionError"


def test_a_notebook_of_several_languages_runs_by_the_extension(console):
    console.run("x = 1")
    console.run("SELECT 1 AS one", "sql")

    with console.page.expect_download() as begun:
        console.page.locator("#save-notebook").click()
    written = json.loads(begun.value.path().read_text())

    assert ["".join(cell["source"]) for cell in written["cells"]] == [
        "%load_ext groundbox",
        "%%sandbox --language python\nx = 1",
        "%%sandbox --language sql\nSELECT 1 AS one",
    ]


def test_a_sandbox_is_made_with_what_was_chosen_and_closed(console, client):
    page = console.page
    page.on("dialog", lambda dialog: dialog.accept())
    page.locator("#new").click()
    page.get_by_label("Name").fill("small one")
    page.get_by_label("Memory, MiB").fill("256")
    page.get_by_label("Seconds a run").fill("5")
    page.get_by_role("button", name="Make").click()
    expect(page.locator("#name")).to_have_text("small one")

    *_, made = client.get("/v1/sandboxes").json()["sandboxes"]
    page.locator("#close").click()
    expect(page.locator("#name")).to_have_text("Sandbox 1")

    assert made["labels"] == {"name": "small one"}
    assert (made["limits"]["memory_bytes"], made["limits"]["wall_s"]) == (256 * 2**20, 5.0)
    assert [each["labels"]["name"] for each in client.get("/v1/sandboxes").json()["sandboxes"]] == ["Sandbox 1"]


def test_what_cannot_be_made_is_refused_in_the_dialog(opened):
    console = opened().enter()
    console.page.locator("#new").click()
    console.page.get_by_label("Seconds a run").fill("99999")
    console.page.get_by_role("button", name="Make").click()

    expect(console.page.locator("#making .problem")).to_contain_text("may be at most 3600")


def test_it_is_dark_where_the_system_is_and_where_it_was_chosen(opened):
    console = opened(color_scheme="dark").enter()
    theme = "document.documentElement.dataset.theme"
    colour = "getComputedStyle(document.documentElement).backgroundColor"

    of_system = console.page.evaluate(f"[{theme}, {colour}]")
    console.page.locator("#theme").click()
    chosen = console.page.evaluate(f"[{theme}, {colour}]")
    console.page.reload()
    kept = console.page.evaluate(theme)

    assert of_system == ["dark", "rgb(19, 23, 28)"]
    assert chosen == ["light", "rgb(255, 255, 255)"]
    assert kept == "light"


def test_nothing_is_wider_than_a_phone(opened):
    console = opened(viewport=PHONE).enter()
    console.run("print('x' * 500)\nimport pandas as pd\npd.DataFrame({f'column {n}': [n] for n in range(20)})")
    console.run("no_such_name_" + "x" * 200)

    widths = console.page.evaluate("[document.documentElement.scrollWidth, document.body.scrollWidth, innerWidth]")
    console.page.locator("#menu").click()
    side = console.page.locator("#side").bounding_box()
    console.page.keyboard.press("Escape")

    assert widths == [390, 390, 390]
    assert side["x"] + side["width"] <= 390
    expect(console.page.locator("#side")).to_be_hidden()


def test_the_keyboard_does_all(console):
    page = console.page
    focus = "document.activeElement.id || document.activeElement.getAttribute('aria-label')"

    page.keyboard.insert_text("print('typed')")
    page.keyboard.press("Control+Enter")
    cell = page.locator("#cells > .cell").first
    console.ended(cell)
    page.keyboard.insert_text("if 1:")
    page.keyboard.press("Tab")
    stays = page.evaluate(focus)
    order = []
    page.keyboard.press("Escape")
    for _ in range(3):
        page.keyboard.press("Tab")
        order.append(page.evaluate(focus))
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Shift+Tab")
    back = page.evaluate(focus)
    page.locator("#open-history").focus()
    page.keyboard.press("Enter")
    page.locator("#history[open]").wait_for()
    in_dialog = page.evaluate("document.querySelector('dialog[open]').contains(document.activeElement)")
    page.keyboard.press("Escape")
    returned = page.evaluate(focus)

    assert cell.locator(".printed").inner_text() == "typed\n"
    assert stays == "Program"
    assert order == ["language", "trace", "run"]
    assert back == "Program"
    assert in_dialog
    assert returned == "open-history"


@pytest.mark.parametrize(("scheme", "viewport"), [("light", None), ("dark", None), ("light", PHONE)])
def test_axe_finds_nothing(opened, scheme, viewport):
    axe = pytest.importorskip("axe_playwright_python.base", reason="axe is not installed here: make clients")
    console = opened(color_scheme=scheme, **({"viewport": viewport} if viewport else {})).enter()
    page = console.page

    def broken():
        found = page.evaluate(axe.AXE_SCRIPT + "\n;axe.run(document, {iframes: false})")["violations"]
        return [(each["id"], [node["html"] for node in each["nodes"]]) for each in found]

    page.context.clear_cookies()
    page.goto(f"{console.server.url}/")
    told = {"login": broken()}
    console.enter()
    told["empty"] = broken()
    console.run("import pandas as pd\nopen('/tmp/x.csv', 'w').write('a')\npd.DataFrame({'a': [1]})")
    console.run("digraph { a -> b }", "dot")
    page.locator("#trace").is_disabled()
    page.locator("#language").select_option("python")
    page.locator("#trace").check()
    console.run("x = 1\nopen('out.csv', 'w').write('a')\nx.nope")
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    told["runs"] = broken()
    page.get_by_role("button", name="Steps").last.click()
    page.keyboard.press("ArrowRight")
    told["steps"] = broken()
    page.keyboard.press("Escape")
    page.locator("#open-history").click()
    page.locator("#past button").first.click()
    page.locator("#past-run .cell").wait_for()
    told["history"] = broken()
    page.keyboard.press("Escape")
    if viewport:
        page.locator("#menu").click()
    page.locator("#new").click()
    page.locator("#making[open]").wait_for()
    told["new"] = broken()

    assert told == {"login": [], "empty": [], "runs": [], "steps": [], "history": [], "new": []}


def test_the_first_paint_comes_soon(opened, capsys):
    console = opened()
    console.enter()
    console.page.goto(f"{console.server.url}/")
    console.page.locator("html[data-ready]").wait_for(state="attached")

    told = console.page.evaluate(
        "performance.getEntriesByName('first-contentful-paint').map(({startTime}) => Math.round(startTime))"
    )

    with capsys.disabled():
        print(f"\nfirst contentful paint of the console: {told[0]} ms")
    assert told[0] < 5000  # a second on a machine that does nothing else
