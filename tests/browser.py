"""A real browser for tests: Debian's chromium, driven over a pair of pipes by its DevTools protocol.

The protocol (https://chromedevtools.github.io/devtools-protocol/) is JSON between NUL bytes, which the browser reads
from descriptor 3 and writes to descriptor 4; so neither a port nor a library is needed. Its own sandbox is off, because
as root it cannot start with one, and only pages of this project are opened. It has nobody's profile.
"""

import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time

PROGRAM = "chromium"
OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-component-update",
    "--disable-background-networking", "--disable-sync", "--disable-extensions", "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
)  # fmt: skip
DEADLINE_S = 60
_EXEC = """
import os, sys
for end, number in zip(sys.argv[1:3], (3, 4)):
    os.dup2(int(end), number)
os.execvp(sys.argv[3], sys.argv[3:])
"""


def program():
    """Where the browser is, or None."""
    return shutil.which(PROGRAM)


@contextlib.contextmanager
def running(program, folder):
    """A browser whose profile, home and log are in `folder`; its processes end with the block."""
    reads, writes = os.pipe(), os.pipe()
    # High numbers, so that neither of them is 3 or 4 itself.
    theirs = [fcntl.fcntl(end, fcntl.F_DUPFD, 20) for end in (reads[0], writes[1])]
    command = [sys.executable, "-c", _EXEC, *map(str, theirs), program, *OPTIONS]
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8"}
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(
            [*command, f"--user-data-dir={folder / 'profile'}", "about:blank"], pass_fds=theirs, env=environment,
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    for end in (reads[0], writes[1], *theirs):
        os.close(end)
    try:
        yield Browser(reads[1], writes[0], folder / "log")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(reads[1])
        os.close(writes[0])


class Browser:
    """Commands go out by `call`; events of pages are kept by the page that asked for them."""

    def __init__(self, commands, answers, log):
        self._commands, self._answers, self._log = commands, answers, log
        self._number, self._waiting, self._pages = 0, b"", {}

    @contextlib.contextmanager
    def page(self, path, **media):
        """A tab that has opened this file.

        Args:
            media: Features of the reader's system, such as `prefers_color_scheme="dark"`.
        """
        context = self.call("Target.createBrowserContext")["browserContextId"]
        target = self.call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self._pages[session] = Page(self, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(f"{domain}.enable")
        if media:
            features = [{"name": name.replace("_", "-"), "value": value} for name, value in media.items()]
            page.call("Emulation.setEmulatedMedia", features=features)
        try:
            page.open(path.as_uri())
            yield page
        finally:
            self.call("Target.disposeBrowserContext", browserContextId=context)
            del self._pages[session]

    def call(self, method, session=None, **parameters):
        """What the browser answers to one command."""
        self._number += 1
        asked = {"id": self._number, "method": method, "params": parameters}
        message = json.dumps(asked if session is None else {**asked, "sessionId": session}).encode() + b"\0"
        while message:
            message = message[os.write(self._commands, message) :]
        number = self._number
        while (answer := self.receive()).get("id") != number:
            pass
        assert "error" not in answer, (method, answer["error"])
        return answer["result"]

    def receive(self):
        """The next message; an event is noted by its page, too."""
        end = time.monotonic() + DEADLINE_S
        while b"\0" not in self._waiting:
            poll = select.poll()  # select(2) knows descriptors below 1024 only
            poll.register(self._answers, select.POLLIN)
            ready = poll.poll(max(0, end - time.monotonic()) * 1000)
            read = os.read(self._answers, 1 << 16) if ready else b""
            assert read, f"the browser {'has ended' if ready else 'does not answer'}: {self._log.read_text()[-2000:]}"
            self._waiting += read
        text, _, self._waiting = self._waiting.partition(b"\0")
        message = json.loads(text)
        page = self._pages.get(message.get("sessionId"))
        if page is not None and "method" in message:
            page.events.append((message["method"], message["params"]))
        return message


class Page:
    """One tab. `events` has all that it told, in order."""

    def __init__(self, browser, session):
        self._browser, self._session, self.events = browser, session, []

    def call(self, method, **parameters):
        return self._browser.call(method, self._session, **parameters)

    def open(self, address):
        seen = len(self.events)
        self.call("Page.navigate", url=address)
        while not any(method == "Page.loadEventFired" for method, _ in self.events[seen:]):
            self._browser.receive()

    def evaluate(self, expression):
        """The value of an expression of JavaScript, a promise's once it is there."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key, text=""):
        """A key, as its reader would press it."""
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, text=text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key)

    def click(self, selector):
        """A click with the mouse in the middle of what the selector finds, scrolled to, which nothing may cover."""
        found = f"document.querySelector({json.dumps(selector)})"
        self.evaluate(f"{found}.scrollIntoView({{block: 'nearest'}})")
        middle = "({x, y, width, height}) => [x + width / 2, y + height / 2]"
        x, y = self.evaluate(f"({middle})({found}.getBoundingClientRect())")
        assert self.evaluate(f"{found}.contains(document.elementFromPoint({x}, {y}))"), f"something covers {selector}"
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def resize(self, width, height=900):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    @property
    def complaints(self):
        """Errors and warnings of the page's script, of its policy, and of anything else that the browser minds."""
        self.evaluate("0")
        said = []
        for method, facts in self.events:
            if method == "Runtime.exceptionThrown":
                said.append(facts["exceptionDetails"].get("exception", {}).get("description", "an exception"))
            elif method == "Log.entryAdded" and facts["entry"]["level"] in ("error", "warning"):
                said.append(facts["entry"]["text"])
        return said

    @property
    def requests(self):
        """Addresses that were asked for."""
        self.evaluate("0")
        return [facts["request"]["url"] for method, facts in self.events if method == "Network.requestWillBeSent"]
