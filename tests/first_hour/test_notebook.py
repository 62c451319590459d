"""Notebooks: results show themselves where nothing of a guest acts, and `%%sandbox` runs a cell in a sandbox."""

import base64
import html.parser
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import groundbox as gb
from groundbox import markup
from groundbox.execution import Artifact, Display
from groundbox.sandbox import environments

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n picture").decode()
OURS = {"div", "pre", "code", "b", "img", "table", "tbody", "tr", "td"}
ATTACKS = {
    "a script": "<table><tr><td><script>ran()</script>seen</td></tr></table>",
    "a handler": "<table onclick=ran()><tr><td><img src=x onerror=ran()>seen</td></tr></table>",
    "a link": '<table><td><a href="javascript:ran()">seen</a></td></table>',
    "an unquoted end": "<table><td x='></td><script>ran()</script>'>seen",
    "a quote that hides the end": '<table><td title=">"><script>ran()</script>seen</td></table>',
    "an unclosed script": "<table><td>seen</td></table><script>ran()",
    "a script in capitals that closes late": "<table><td>seen</td></table><SCRIPT>ran()</SCRIPT x>",
    "a script in a comment's end": "<table><td>seen</td></table><!--><script>ran()</script>-->",
    "a declaration": "<table><td>seen</td></table><![CDATA[<script>ran()</script>]]>",
    "a style": "<style>@import 'http://x.invalid/a'; * {background: url(http://x.invalid/b)}</style><table><td>seen</table>",
    "an svg": "<table><td>seen</td></table><svg onload=ran()><script>ran()</script></svg>",
    "math": "<table><td>seen</td></table><math><mtext><style><img src onerror=ran()></style></mtext></math>",
    "a frame": "<table><td>seen</td></table><iframe srcdoc='<script>parent.ran()</script>'></iframe>",
    "a template": "<table><td>seen</table><template><script>ran()</script></template><noscript><img onerror=ran()>",
    "a form": "<table><td>seen<form action=http://x.invalid><button formaction=javascript:ran()>x</form></table>",
    "a refresh": "<meta http-equiv=refresh content='0;url=http://x.invalid'>"
    "<base href=http://x.invalid><table><td>seen</table>",
    "escaped text": "<table><td>&lt;script&gt;ran()&lt;/script&gt;seen</td></table>",
    "a tag in a tag": "<table><td><<script>script>ran()<</script>/script>seen</td></table>",
    "an end of ours": "</td></table></div></div></pre><table><td>seen</table></div><div id=x style='position:fixed'>",
    "a long tag": f"<table><td>seen</td></table><img {'a' * 5000} src=x onerror=ran()>",
    "a picture from elsewhere": "<table><td>seen<img src=http://x.invalid/p.png><video src=http://x.invalid/v></table>",
}


def hostile(name):
    return Display(data={"text/html": ATTACKS[name], "text/plain": "plain"})


class Elements(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.found, self.text = [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


@pytest.mark.parametrize("name", ATTACKS)
def test_of_a_guests_table_only_plain_elements_and_text_are_shown(name):
    shown = Elements(hostile(name)._repr_html_())

    assert "seen" in shown.text
    assert {tag for tag, _ in shown.found} <= OURS
    assert all(set(attributes) <= {"style"} for _, attributes in shown.found)
    assert not [a for _, a in shown.found if a.get("style", "overflow-x:auto") != "overflow-x:auto"]


def test_attacks_run_no_script_and_fetch_nothing_in_a_browser(browser, tmp_path):
    control, page = tmp_path / "control.html", tmp_path / "page.html"
    begin = "<!doctype html><meta charset=utf-8><script>window.times = 0; function ran() { window.times++ }</script>"
    svg = "<svg xmlns='http://www.w3.org/2000/svg' onload='ran()'><script>ran()</script></svg>"
    pictures = [
        Display(data={"image/svg+xml": svg, "text/plain": '"><script>ran()</script>'}),
        Display(data={"image/png": '"><script>ran()</script>', "text/plain": "p"}),
        Display(data={"text/markdown": "<img src=x onerror=ran()>", "text/latex": "$"}),
        Display(data={"application/javascript": "ran()", "<img src=x onerror=ran()>": "x"}),
    ]
    control.write_text(begin + "".join(ATTACKS.values()))
    page.write_text(begin + "".join(each._repr_html_() for each in [*map(hostile, ATTACKS), *pictures]))

    with browser.page(control) as opened:
        assert opened.evaluate("window.times") > 3
    with browser.page(page) as opened:
        assert opened.evaluate("new Promise(done => setTimeout(() => done(window.times), 300))") == 0
        asked = [told["request"]["url"] for method, told in opened.events if method == "Network.requestWillBeSent"]
        assert [url for url in asked if not url.startswith(("data:image/", "file:"))] == []
        assert opened.evaluate("document.querySelectorAll('script').length") == 1
        assert opened.evaluate("document.querySelectorAll('table').length") == len(ATTACKS)


UNITS = ["<a ", "<a '", '<a "<a " ', "<!--", "</style", "<style>", "<td>", "&amp", "<", "<td a='"]


@pytest.mark.parametrize("unit", UNITS)
def test_time_grows_with_the_size_of_the_markup_and_not_faster(unit):
    def took_s(count):
        text, best = unit * count, []
        for _ in range(3):
            begun = time.process_time()
            markup.harmless(text)
            best.append(time.process_time() - begun)
        return min(best)

    assert took_s(40_000) < 8 * took_s(10_000) + 0.05


def test_a_table_is_shown_as_one():
    head = "<thead><tr><th colspan='2'>a &amp; b</th></tr></thead>"
    table = f"<style>x</style><table border='1' class='dataframe'>{head}</table>"

    assert markup.harmless(table) == '<table><thead><tr><th colspan="2">a &amp; b</th></tr></thead></table>'


def test_what_is_not_balanced_is_balanced():
    shown = markup.harmless("<table><tr><td>1<td>2</tr></table></div><b>x")

    assert shown == "<table><tr><td>1<td>2</td></td></tr></table><b>x</b>"


def test_a_result_shows_output_value_failure_hints_warnings_and_files():
    with gb.Sandbox() as box:
        told = box.run(
            "import pandas as pd\nprint('out <b>')\nopen('a.csv', 'w').write('a,b\\n1,2\\n')\n"
            "df = pd.DataFrame({'a': [1, 2]}); df"
        )
        failed = box.run("df['b']")
        drawn = box.run("import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()")

    shown = told._repr_html_()
    assert "out &lt;b&gt;" in shown
    assert "<th>a</th>" in shown
    assert "a.csv" in Elements(shown).text
    shown = Elements(failed._repr_html_()).text
    assert "KeyError" in shown
    assert all(hint in shown for hint in failed.error.hints)
    pictures = [attributes for tag, attributes in Elements(drawn._repr_html_()).found if tag == "img"]
    assert [base64.b64decode(each["src"].removeprefix("data:image/png;base64,")) for each in pictures] == [
        drawn.displays[0].png
    ]


def test_each_kind_of_value_shows_itself_in_jupyter_and_marimo():
    execution = gb.run("open('a.txt', 'w').write('1'); 6 * 7")
    shown = [execution, execution.artifacts, execution.artifacts["a.txt"], Display(data={"image/png": PNG})]

    for each in shown:
        bundle = each._repr_mimebundle_()
        assert (bundle["text/plain"], bundle["text/html"]) == (repr(each), each._repr_html_())
        assert each._mime_() == ("text/html", each._repr_html_())
    assert bundle["image/png"] == PNG


def test_a_file_is_named_on_one_line_and_as_it_is():
    name = "a\n<img src=x onerror=ran()>\u202e.txt"
    file = Artifact(path=name, size_bytes=1, media_type="text/plain", sha256="0")

    shown = Elements(file._repr_html_())
    assert "a\\n<img src=x onerror=ran()>\\u202e.txt" in shown.text
    assert "img" not in {tag for tag, _ in shown.found}


def test_what_is_too_large_for_a_notebook_says_so():
    large = base64.b64encode(bytes(9 * 1024 * 1024)).decode()

    assert "too large to be shown" in Display(data={"image/png": large})._repr_html_()
    many = gb.run("for _ in range(999): display('x' * 60_000)")._repr_html_()
    assert len(many) < 2_100_000
    assert "more displays are in the result" in many
    assert "30000 characters not shown" in gb.run("print('x' * 49999)")._repr_html_()


CELLS = """
import json, os, signal, sys
sys.path.append(sys.argv[1])
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

shell, told = InteractiveShell.instance(colors="nocolor"), {}

def cell(name, text):
    with capture_output() as captured:
        shell.run_cell(text)
    shown = [{mime: output.data[mime] for mime in output.data} for output in captured.outputs]
    told[name] = {"stdout": captured.stdout, "stderr": captured.stderr, "shown": shown}

class Interrupting:
    def write(self, text):
        if "running" in text:
            os.kill(os.getpid(), signal.SIGINT)
    def flush(self): pass

cell("load", "%load_ext groundbox")
cell("list none", "%sandbox")
cell("first", "%%sandbox --backend bare\\nx = 41\\nprint('hi\\\\x1b[31m', flush=True)\\nx + 1")
cell("kept", "%%sandbox\\nx")
cell("failed", "%%sandbox\\n1 / 0")
cell("checked", "%%sandbox --check\\n1 / 0")
cell("result", "print(_sandbox.outcome, _sandbox.error.type)")
cell("other", "%%sandbox other --backend bare --to answer\\n'x' in dir()")
cell("to", "print(answer.text)")
cell("list", "%sandbox")
cell("file", f"%%sandbox --file {sys.argv[2]}:in.txt\\nopen('in.txt').read()")
cell("script", "%%sandbox -m script -- a 'b c'\\nimport sys; print(sys.argv[1:])")
cell("sql", "%%sandbox -l sql --option dialect=sqlite\\nSELECT 6 * 7 AS answer")
cell("api", "from groundbox.notebook import sandbox; print(sorted(sandbox().files.list()))")
stdout, sys.stdout = sys.stdout, Interrupting()
shell.run_cell("%%sandbox\\nprint('running', flush=True)\\nwhile True: pass")
sys.stdout = stdout
cell("interrupted", "print(_sandbox.outcome, _sandbox.state)")
cell("after", "%%sandbox\\nx")
cell("gone", "%%sandbox\\nimport os; os._exit(3)")
cell("afresh", "%%sandbox\\n'x' in dir()")
cell("fresh", "%%sandbox other --fresh --backend bare\\n'x' in dir()")
cell("otherwise", "%%sandbox --memory-mib 700\\n1")
cell("unknown", "%%sandbox --nope\\n1")
cell("language", "%%sandbox -l cobol\\n1")
cell("missing", "%sandbox nobody --close")
cell("shown", "from IPython.display import display; display(answer)")
cell("close", "%sandbox other --close")
cell("unload", "%unload_ext groundbox")
cell("unloaded", "%%sandbox\\n1")
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What each cell of one session of a real IPython printed and showed; it is that of the guests' environment."""
    packages = list(environments.get("default").path.glob("lib/python*/site-packages"))
    if not (packages and (packages[0] / "IPython").is_dir()):
        pytest.skip("the environment `default` has no IPython here")
    folder = tmp_path_factory.mktemp("notebook")
    (folder / "host.txt").write_text("from the host")
    home = {"IPYTHONDIR": str(folder), "PYTHONPATH": str(Path(gb.__file__).parents[1])}
    ran = subprocess.run(
        [sys.executable, "-c", CELLS, str(packages[0]), str(folder / "host.txt")],
        capture_output=True,
        text=True,
        env={**os.environ, **home},
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.splitlines()[-1])


def words(told, name):
    return told[name]["shown"][-1]["text/plain"]


def test_a_cell_prints_as_it_runs_and_shows_its_value(told):
    assert told["first"]["stdout"].startswith("hi\n")
    assert words(told, "first").startswith("42\n")
    assert "<pre" in told["first"]["shown"][-1]["text/html"]
    assert words(told, "kept").startswith("41\n")


def test_a_failure_is_shown_and_stops_the_notebook_only_if_asked(told):
    assert "ZeroDivisionError: division by zero" in words(told, "failed")
    assert told["failed"]["stderr"] == ""
    assert "UsageError: the program ended with outcome error: ZeroDivisionError" in told["checked"]["stderr"]
    assert told["result"]["stdout"] == "error ZeroDivisionError\n"


def test_sandboxes_have_names_and_variables_of_their_own(told):
    assert words(told, "other").startswith("False\n")
    assert told["to"]["stdout"] == "False\n"
    assert told["list none"]["stdout"].startswith("no sandbox yet")
    assert told["list"]["stdout"] == (
        "default: environment=default, backend=bare\nother: environment=default, backend=bare\n"
    )
    assert told["close"]["stdout"] == "default: environment=default, backend=bare\n"


def test_files_arguments_and_languages_are_options_of_the_cell(told):
    assert words(told, "file").startswith("'from the host'\n")
    assert told["script"]["stdout"] == "['a', 'b c']\n"
    assert "42" in words(told, "sql")
    assert told["api"]["stdout"] == "['in.txt']\n"


def test_the_notebooks_interrupt_stops_the_cell_and_keeps_its_variables(told):
    assert told["interrupted"]["stdout"] == "cancelled kept\n"
    assert words(told, "after").startswith("41\n")


def test_the_next_cell_after_the_processs_end_begins_afresh(told):
    assert words(told, "afresh").startswith("False\n")
    assert "its variables are gone" in words(told, "afresh")
    assert words(told, "fresh").startswith("False\n")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("otherwise", "--memory-mib: the sandbox 'default' was made otherwise; add --fresh to make it anew"),
        ("unknown", "%%sandbox: unrecognized arguments: --nope (`%%sandbox --help` lists what there is)"),
        ("language", "language: 'cobol' is not known here; there is: dot, javascript, python, shell, sql"),
        ("missing", "name: no sandbox is called 'nobody'; there is: default, other"),
    ],
)
def test_what_cannot_be_meant_is_told_in_a_line(told, name, message):
    assert told[name]["stderr"].strip() == f"UsageError: {message}"


def test_a_result_in_a_cell_of_its_own_is_shown(told):
    (shown,) = told["shown"]["shown"]

    assert shown["text/plain"].startswith("<Execution ok: value 'False'")
    assert "False" in shown["text/html"]


def test_unloading_takes_the_magics_away(told):
    assert "UsageError: Cell magic `%%sandbox` not found" in told["unloaded"]["stderr"]
