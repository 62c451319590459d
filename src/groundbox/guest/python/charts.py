"""plotly's figures as pictures and as pages, without a network and without a browser on the machine.

Pictures are drawn by the browser that kaleido 0.2.1 brings along: one process of some thirty threads and 150 MiB,
started for the first picture of a run and ended with the run. kaleido's own Python side starts it in ways that a
sandbox refuses (it forks through a zygote, which wants capabilities), so that the protocol is spoken here: a figure
as one line of JSON into its standard input, a picture as one line of JSON from its standard output.
Its browser is of 2021 and lacks a few functions that plotly.js calls; the environment's caches hold
a plotly.js that brings them (`charts` in sandbox/environments/inside/selftest.py).

Pages hold plotly.js within themselves, compressed, so that they work from a file, offline, anywhere.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import glob
import gzip
import hashlib
import importlib
import importlib.util
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
import types
from typing import Any, Final, NoReturn

START_S: Final = 20.0
"""Seconds for one picture, the browser's start with it; then it is ended, and the figure has none."""

_BINARY: Final = frozenset({"png", "jpeg", "webp", "pdf"})
_FORMATS: Final = frozenset({*_BINARY, "svg"})
_ARGUMENTS: Final = (
    "--disable-gpu",
    "--allow-file-access-from-files",
    "--disable-breakpad",
    "--disable-dev-shm-usage",
    "--no-sandbox",
    "--no-zygote",
    "--single-process",
)
_TAIL_CHARS: Final = 300
_THREADS: Final = 36
"""Somewhat more than the browser starts: 28 on two processors. Where it cannot, it waits for ever and says nothing."""


class ChartError(RuntimeError):
    """A figure that could not be drawn; the message says why."""


class _Browser:
    """The running browser, and the lines that go in and come out."""

    def __init__(self) -> None:
        self.started_by = os.getpid()
        folder = _browser_folder()
        library = cache("kaleido-plotly.js")
        if folder is None or library is None:
            raise ChartError("the environment has no kaleido 0.2.1 to draw it")
        _try_threads(_THREADS)
        environ = {
            **os.environ,
            "LD_LIBRARY_PATH": f"{folder}/lib",
            "FONTCONFIG_PATH": f"{folder}/etc/fonts",
            "XDG_DATA_HOME": _font_folder() or f"{folder}/xdg",
        }
        self._process = subprocess.Popen(
            [f"{folder}/bin/kaleido", "plotly", f"--plotlyjs=file://{library}",
             f"--mathjax=file://{folder}/etc/mathjax/MathJax.js", *_ARGUMENTS],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            cwd=folder, env=environ, start_new_session=True,
        )  # fmt: skip
        self._unread = b""
        self._until = time.monotonic() + START_S
        if self._answer().get("code"):
            raise ChartError("kaleido's browser did not start")

    def draw(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send one request, and return its answer."""
        self._until = time.monotonic() + START_S
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            self._gave_up()
        return self._answer()

    def end(self) -> None:
        """End the browser at once; it keeps nothing, and the page that it had begun from (tmpnam(3)) goes."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        for stream in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                if stream is not None:
                    stream.close()
        self._process.wait()
        for page in glob.glob("/tmp/file??????.html"):
            with contextlib.suppress(OSError), open(page, "rb") as file:
                if b'id="kaleido-image"' in file.read(4096):
                    os.remove(page)

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        while b"\n" not in self._unread:
            ready, _, _ = select.select([descriptor], [], [], max(0.0, self._until - time.monotonic()))
            if not ready:
                raise ChartError(f"kaleido's browser took longer than {START_S:.0f} s")
            part = os.read(descriptor, 1 << 20)
            if not part:
                self._gave_up()
            self._unread += part
        line, _, self._unread = self._unread.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _gave_up(self) -> NoReturn:
        try:
            code = self._process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            raise ChartError("kaleido's browser closed its output") from None
        ended = f"signal {-code}" if code < 0 else f"exit code {code}"
        raise ChartError(f"kaleido's browser ended ({ended}); it needs about 250 MiB of memory")


_browser: _Browser | None = None


def end_browser() -> None:
    """End the browser, if one was started in this process; called when a run ends."""
    global _browser
    browser, _browser = _browser, None
    if browser is not None and browser.started_by == os.getpid():
        browser.end()


def can_draw() -> bool:
    """Whether the environment has what pictures need."""
    return _browser_folder() is not None and cache("kaleido-plotly.js") is not None


def picture(figure: Any, kind: str, *, width: float, height: float, scale: float = 1.0) -> bytes:
    """A figure, as the object or as its dictionary, drawn.

    Args:
        kind: png, jpeg, webp, svg or pdf.
        width: In pixels of the layout, as height.
        scale: Pixels of the picture for one of the layout.

    Raises:
        ChartError: The browser did not start, ended, or refused the figure.
        ValueError: A kind that it does not draw.
    """
    global _browser
    kind = {"jpg": "jpeg"}.get(kind.lower(), kind.lower())
    if kind not in _FORMATS:
        raise ValueError(f"plotly figures cannot be drawn as {kind!r} here: {', '.join(sorted(_FORMATS))}")
    request = {"data": _plain(figure), "format": kind, "width": width, "height": height, "scale": scale}
    try:
        if _browser is None or _browser.started_by != os.getpid():  # a fork has its parent's
            _browser = _Browser()
        answer = _browser.draw(request)
    except BaseException:  # an interrupt, too: its answer would be taken for that of the next figure
        end_browser()
        raise
    if answer.get("code"):
        raise ChartError(f"plotly.js refused the figure: {str(answer.get('message'))[:_TAIL_CHARS]}")
    result = str(answer.get("result"))
    return base64.b64decode(result) if kind in _BINARY else result.encode()


def page(figure: Any) -> str:
    """An HTML document that shows the figure and can be used with the mouse, whatever is reachable."""
    text = json.dumps(_plain(figure)).replace("<", "\\u003c")
    name = "figure-" + hashlib.sha256(text.encode()).hexdigest()[:16]
    return _PAGE.format(name=name, library=_library_base64(), figure=text)


_PAGE: Final = """<!doctype html>
<html><head><meta charset="utf-8"><title>figure</title></head>
<body style="margin:0"><div id="{name}"></div>
<script type="text/plain" id="plotly-gzip">{library}</script>
<script>
(async () => {{
  if (!window.Plotly) {{
    const packed = Uint8Array.from(atob(document.getElementById("plotly-gzip").textContent), c => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(stream).text();
    document.head.appendChild(script);
  }}
  const figure = {figure};
  await Plotly.newPlot("{name}", figure.data, figure.layout, {{responsive: true}});
  if (figure.frames && figure.frames.length) await Plotly.addFrames("{name}", figure.frames);
}})();
</script>
</body></html>
"""


def cache(name: str) -> str | None:
    """The path of a file that was made with the environment, None in one without plotly or an older one."""
    path = f"{os.path.dirname(sys.prefix)}/caches/plotly/{name}"
    return path if os.path.isfile(path) else None


@functools.cache
def _library_base64() -> str:
    prepared = cache("plotly.min.js.gz")
    if prepared is not None:
        with open(prepared, "rb") as file:
            return base64.b64encode(file.read()).decode()
    offline: Any = importlib.import_module("plotly.offline")
    return base64.b64encode(gzip.compress(offline.get_plotlyjs().encode(), 6)).decode()


def _plain(figure: Any) -> Any:
    """What plotly.js reads; numpy's arrays and dates are written by plotly's own encoder."""
    plotly: Any = importlib.import_module("plotly.io")
    return json.loads(plotly.to_json(figure, validate=False, remove_uids=False))


def _browser_folder() -> str | None:
    spec = importlib.util.find_spec("kaleido")
    folder = f"{os.path.dirname(spec.origin)}/executable" if spec and spec.origin else ""
    return folder if os.access(f"{folder}/bin/kaleido", os.X_OK) else None


def _try_threads(count: int) -> None:
    """Find out whether `count` more threads may be started, by starting them; a hundredth of a second.

    Raises:
        ChartError: They may not.
    """
    done = threading.Event()
    before = threading.stack_size(64 * 1024)
    started = []
    try:
        for _ in range(count):
            thread = threading.Thread(target=done.wait)
            thread.start()
            started.append(thread)
    except RuntimeError:
        raise ChartError(f"kaleido's browser needs {count} processes or threads more than may be started") from None
    finally:
        threading.stack_size(before)
        done.set()
        for thread in started:
            thread.join()


def _font_folder() -> str | None:
    spec = importlib.util.find_spec("paperang_p2_fonts_cjk")
    return os.path.dirname(spec.origin) if spec and spec.origin else None


def adapt(module: Any) -> None:
    """Let `Figure.to_image` and `write_image` draw here: plotly calls version 1 of kaleido, which wants Chrome.

    Args:
        module: `plotly.io._kaleido`.
    """
    if not can_draw():
        return
    errors = types.ModuleType("kaleido.errors")
    errors.__dict__["ChromeNotFoundError"] = type("ChromeNotFoundError", (Exception,), {})
    sys.modules.setdefault("kaleido.errors", errors)
    module._KALEIDO_AVAILABLE = True
    module.kaleido = types.SimpleNamespace(
        calc_fig_sync=_calc_fig_sync, write_fig_from_object_sync=_write_fig_from_object_sync
    )


def _calc_fig_sync(figure: Any, *, opts: dict[str, Any], **others: Any) -> bytes:
    sizes = {name: opts[name] for name in ("width", "height", "scale") if opts.get(name)}
    return picture(figure, opts.get("format") or "png", **{"width": 700, "height": 500, **sizes})


def _write_fig_from_object_sync(specs: Any, **others: Any) -> None:
    for spec in [specs] if isinstance(specs, dict) else specs:
        data = _calc_fig_sync(spec["fig"], opts=spec.get("opts") or {})
        with open(spec["path"], "wb") as file:
            file.write(data)
