"""The console in a real Chromium, on a real server."""

import re
import shutil

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
WAIT_MS = 90_000
LIMITS = {"wall_s": 200, "cpu_s": 200}  # importing plotly takes its time on a busy machine


class Console:
    """One page of the console.

    Attributes:
        page: Playwright's.
        log: Errors and warnings that the browser wrote.
        elsewhere: Addresses of other hosts that were asked.
    """

    def __init__(self, page, server):
        self.page, self.server = page, server
        self.log, self.elsewhere = [], []
        page.on("console", lambda told: self.log.append(told.text) if told.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.log.append(str(error)))
        page.on("request", self._asked)
        page.set_default_timeout(WAIT_MS)

    def _asked(self, request):
        if not request.url.startswith((self.server.url, "data:", "blob:")):
            self.elsewhere.append(request.url)

    def enter(self):
        """Come in with the key, and wait until the page can be used."""
        self.page.goto(f"{self.server.url}/?token={self.server.token}")
        self.page.locator("html[data-ready]").wait_for(state="attached")
        return self

    def write(self, code, language="python"):
        """Put a program into the editor by the keyboard."""
        self.page.locator("#language").select_option(language)
        self.page.locator(".cm-content").click()
        self.page.keyboard.press("Control+a")
        self.page.keyboard.insert_text(code)

    def begin(self, code, language="python"):
        """Run a program, and return its cell without waiting for the end."""
        number = self.page.locator("#cells > .cell").count()
        self.write(code, language)
        self.page.keyboard.press("Control+Enter")
        cell = self.page.locator("#cells > .cell").nth(number)
        cell.wait_for(state="attached")
        return cell

    def run(self, code, language="python"):
        """Run a program, and return its cell when it has ended."""
        cell = self.begin(code, language)
        self.ended(cell)
        return cell

    def ended(self, cell):
        """Wait for the end of a cell, and return its outcome."""
        from playwright.sync_api import expect

        expect(cell).to_have_attribute("data-outcome", re.compile("."), timeout=WAIT_MS)
        return cell.get_attribute("data-outcome")

    def frame(self, name):
        """The document of the last frame of this kind, when there is one."""
        self.page.locator(f'iframe[src="/console/frame/{name}"]').last.wait_for(state="attached")
        found: list = []
        while not found:
            self.page.wait_for_timeout(50)
            found = [each for each in self.page.frames if each.url.endswith(f"/console/frame/{name}")]
        return found[-1]


@pytest.fixture(scope="module")  # not longer: while it is there, this thread has a running event loop
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed here: make clients")
    playwright.expect.set_options(timeout=60_000)
    if CHROMIUM is None:
        pytest.skip("chromium is not installed here")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"], timeout=60_000
        )
        yield browser
        browser.close()


@pytest.fixture
def opened(browser, server, client):
    """Opens consoles: `opened(viewport=…, color_scheme=…)`. There is one sandbox, or none (`sandbox=False`)."""
    for each in client.get("/v1/sandboxes").json()["sandboxes"]:
        client.delete(f"/v1/sandboxes/{each['sandbox_id']}")
    contexts = []

    def open_console(*, sandbox=True, **options):
        if sandbox:
            client.post("/v1/sandboxes", json={"labels": {"name": "Sandbox 1"}, "limits": LIMITS})
        options.setdefault("viewport", {"width": 1280, "height": 860})
        context = browser.new_context(**options)
        contexts.append(context)
        return Console(context.new_page(), server)

    yield open_console
    for context in contexts:
        context.close()


@pytest.fixture
def console(opened):
    """A console that is open; its test fails where the browser logs an error or asks another host."""
    entered = opened().enter()
    yield entered
    assert (entered.log, entered.elsewhere) == ([], [])
