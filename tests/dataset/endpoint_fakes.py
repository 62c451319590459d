"""An OpenAI-compatible endpoint on this machine that says what a test wants, and remembers what it was asked."""

import contextlib
import http.server
import json
import threading


def completion(text, finish="stop"):
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": finish}
    return 200, {}, {"choices": [choice], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}


class Cut(bytes):
    """A body that ends before the length that was announced, as where a connection breaks."""


@contextlib.contextmanager
def serving(answer):
    """Yields the URL, and the requests so far as (path, authorization, body).

    `answer` is called in a thread of each request, with body and authorization; it gives status, headers and body.
    """
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            try:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            except ValueError:
                return  # whoever asks was killed in the middle of it
            asked.append((self.path, self.headers.get("authorization"), body))
            status, headers, said = answer(body, self.headers.get("authorization"))
            data = said if isinstance(said, bytes) else json.dumps(said).encode()
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self.send_response(status)
                length = len(data) + (100 if isinstance(said, Cut) else 0)
                for name, value in {**headers, "content-length": str(length)}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

        def log_message(self, *arguments):
            pass

    with _running(Handler) as url:
        yield url, asked


@contextlib.contextmanager
def _running(handler):
    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    httpd.daemon_threads = True
    httpd.block_on_close = False
    threading.Thread(target=httpd.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{httpd.server_address[1]}/v1"
    finally:
        httpd.shutdown()
        httpd.server_close()


@contextlib.contextmanager
def endless(status=200):
    """Yields the URL of an endpoint whose answer goes on, for 64 MiB, and an event that is set if nobody reads on."""
    left = threading.Event()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(status)
            self.end_headers()
            try:
                for _ in range(1024):
                    self.wfile.write(b"x" * 65536)
            except (BrokenPipeError, ConnectionResetError):
                left.set()

        def log_message(self, *arguments):
            pass

    with _running(Handler) as url:
        yield url, left


class Narrator:
    """A model that knows the tellings of a dataset, and makes the mistakes that it is told to make.

    Asked for JSON of a schema, it gives the sentences of what it says with their claims, as far as it knows these.

    Attributes:
        says: Called with the item, the attempt (0 or 1) and the true telling; gives what is answered: a text, or
            status, headers and body.
        gate: Requests that are answered before all others wait for ever; None for all.
    """

    def __init__(self, samples, says=lambda item, attempt, true: true, *, gate=None):
        from groundbox.dataset.reproof import reasoning_of

        self.rows = {}
        for row in samples:
            if row.task in ("output", "exception"):
                self.rows.setdefault(row.item, (row, reasoning_of(row)))
        self.says, self.gate = says, gate
        self.lock, self.waits = threading.Lock(), threading.Event()

    def __call__(self, body, authorization):
        with self.lock:
            if self.gate is not None:
                self.gate -= 1
            closed = self.gate is not None and self.gate < 0
        if closed:
            self.waits.set()
            threading.Event().wait(300)
        question, attempt = body["messages"][0]["content"], len(body["messages"]) // 2
        item, true = self.found(question)
        said = self.says(item, attempt, true)
        known_data = self.rows[item][0].claims_data
        if isinstance(said, str) and "response_format" in body and known_data and not said.startswith("{"):
            thought, _, told = said.rpartition("</think>")
            known = json.loads(known_data)["sentences"]
            document = {"schema": "groundbox.claims/1", "sentences": [*with_claims(told, known)]}
            said = f"{thought}</think>{json.dumps(document)}" if thought else json.dumps(document)
        return completion(said) if isinstance(said, str) else said

    def found(self, question):
        for item, (row, true) in self.rows.items():
            if row.source in question and f"\n{given(row)}\n" in question:
                return item, true
        raise LookupError(question)


def with_claims(text, known):
    """The sentences of a text in their order, with the claims of those that are known."""
    at = 0
    for sentence in [*known, None]:
        start = text.find(sentence["text"], at) if sentence else len(text)
        if start < 0:
            continue
        between = text[at:start].strip()
        if any(sign.isalpha() for sign in between):
            yield {"text": between, "claims": []}
        if sentence:
            yield sentence
            at = start + len(sentence["text"])


def given(row):
    """A row's input, as prompts have it."""
    from groundbox.dataset.problem import case_from_json

    case = case_from_json(json.loads(row.case))
    return f"{row.entry}({case.text()})" if row.entry else f"standard input: {case.stdin or ''!r}"
