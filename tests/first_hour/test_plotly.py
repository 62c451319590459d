"""plotly: a picture for whoever looks, a page for whoever clicks, and neither wants a network."""

import base64
import json
import struct
import subprocess
import sys
import time

import pytest

import groundbox as gb

pytestmark = pytest.mark.slow

FIGURE = (
    "import plotly.graph_objects as go\nfig = go.Figure(go.Bar(x=['a', 'b'], y=[1, 3]), layout={'title': '売上'})\n"
)


@pytest.fixture(scope="module")
def box():
    with gb.Sandbox() as made:
        yield made


def size_of(png):
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    return struct.unpack(">II", png[16:24])


def test_a_picture_leaves_nothing_beside_the_workdir(box):
    made = box.run(FIGURE + "fig.write_image('made.png')")

    assert (list(made.artifacts), list(made.warnings)) == (["made.png"], [])
    assert box.run("import glob; glob.glob('/tmp/file*')").text == "[]"


def test_show_gives_a_picture(box):
    shown = box.run(FIGURE + "fig.show()").displays[0]

    assert shown.text == "plotly figure: 1 bar; title '売上'"
    assert size_of(shown.png) == (700, 500)
    box.files.write("shown.png", shown.png)
    blue = "sum(n for n, c in Image.open('shown.png').convert('RGB').getcolors(1 << 20) if c == (99, 110, 250))"
    assert int(box.run(f"from PIL import Image\n{blue}").value["text/plain"]) > 20_000, "no bars in plotly's colour"


def test_the_page_of_a_figure_can_be_used_offline(box, browser, tmp_path):
    shown = box.run(FIGURE + "fig.show()").displays[0]

    (tmp_path / "page.html").write_text(shown.html, "utf-8")
    with browser.page(tmp_path / "page.html") as page:
        _until(lambda: page.evaluate("document.querySelectorAll('.point').length") == 2)
        assert page.requests == [(tmp_path / "page.html").as_uri()]
        assert page.complaints == []


def test_the_last_expression_is_shown_like_that_and_sizes_are_kept(box):
    execution = box.run(FIGURE + "fig.update_layout(width=300, height=200)")

    assert size_of(base64.b64decode(execution.value["image/png"])) == (300, 200)
    assert {"text/html", "text/plain", "application/vnd.plotly.v1+json"} <= execution.value.keys()


def test_a_script_shows_and_saves_pictures_too(box):
    source = (
        FIGURE
        + "fig.show()\nfig.write_image('bars.png', scale=2)\nfig.write_image('bars.svg')\nfig.write_image('bars.pdf')"
    )

    execution = box.run(source, mode="script")

    assert size_of(execution.displays[0].png) == (700, 500)
    assert size_of(execution.artifacts["bars.png"].read()) == (1400, 1000)
    assert execution.artifacts["bars.svg"].read().startswith(b"<svg ")
    assert execution.artifacts["bars.pdf"].read().startswith(b"%PDF-")


def test_traces_in_three_dimensions_and_subplots_are_drawn(box):
    execution = box.run(
        "import plotly.express as px\nfrom plotly.subplots import make_subplots\nimport plotly.graph_objects as go\n"
        "px.scatter_3d(x=[1, 2], y=[1, 2], z=[1, 2]).show()\n"
        "fig = make_subplots(1, 2)\nfig.add_trace(go.Scatter(y=[1, 2]), 1, 1)\n"
        "fig.add_trace(go.Heatmap(z=[[1, 2]]), 1, 2)\n"
        "fig.show()\npx.sunburst(names=['a', 'b'], parents=['', 'a'], values=[2, 1]).show()"
    )

    assert [len(each.png) > 5000 for each in execution.displays] == [True, True, True]


def test_no_browser_is_left_when_the_run_is_over(box):
    box.run(FIGURE + "fig.show()")

    left = box.run("import psutil\n[p.name() for p in psutil.process_iter() if 'kaleido' in p.name()]")

    assert left.value["text/plain"] == "[]"


def test_a_figure_that_cannot_be_drawn_says_why_and_keeps_its_page():
    with gb.Sandbox(limits=gb.Limits(process_count=12)) as small:
        shown = small.run(FIGURE + "fig.show()").displays[0]

    assert shown.png is None
    assert shown.html is not None
    assert shown.text.endswith(
        "(image/png left out: kaleido's browser needs 36 processes or threads more than may be started)"
    )


def test_a_model_sees_the_picture_over_mcp_and_is_not_sent_the_page():
    call = {"name": "run_code", "arguments": {"code": FIGURE + "fig.show()"}}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    command = [sys.executable, "-m", "groundbox", "mcp", "--structured-content"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        server.stdin.write(json.dumps(asked) + "\n")
        server.stdin.flush()
        result = json.loads(server.stdout.readline())["result"]
        server.stdin.close()

    (picture,) = (each for each in result["content"] if each["type"] == "image")
    assert size_of(base64.b64decode(picture["data"])) == (700, 500)
    shown = result["structuredContent"]["displays"][0]
    assert shown.keys() == {"text/plain", "application/vnd.plotly.v1+json"}
    assert "(a page of " in shown["text/plain"]


def test_a_kind_of_file_that_is_not_drawn_is_named(box):
    error = box.run(FIGURE + "fig.write_image('bars.tiff')").error

    assert error.message == "plotly figures cannot be drawn as 'tiff' here: jpeg, pdf, png, svg, webp"


def _until(holds):
    for _ in range(600):
        if holds():
            return
        time.sleep(0.1)
    pytest.fail("it never came")
