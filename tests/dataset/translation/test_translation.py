"""A model's narrations: asked for, stripped, proven, repaired once, and paid for once."""

import asyncio
import contextlib
import dataclasses
import http.server
import json
import threading

import pytest

from groundbox.dataset.translation.endpoint import Endpoint, EndpointFailed, Reply, read_cache
from groundbox.dataset.translation.prompts import Shown, repair, request
from groundbox.dataset.translation.translator import translate, without_thinking

SHOWN = Shown(
    statement="Double a number.",
    source="def double(n):\n    return 2 * n",
    entry="double",
    arguments="n = {3}",
    trace="def double(n):  # n = 3\n    return 2 * n  # returns 6",
)


@dataclasses.dataclass
class Verdict:
    faithful: bool
    failed: list


class Script:
    """A model that says what is written, and remembers what it was asked."""

    def __init__(self, *texts, finish="stop"):
        self.texts, self.finish, self.asked = list(texts), finish, []

    async def answer(self, messages):
        self.asked.append([dict(message) for message in messages])
        return Reply(text=self.texts.pop(0), finish=self.finish, prompt_tokens=10, completion_tokens=5)


def prove(text):
    return Verdict("6" in text, [] if "6" in text else ["'double returns 7': it returns 6"])


def translated(model, style="grounded"):
    return asyncio.run(translate(model, SHOWN, prove, style=style))


@pytest.mark.parametrize("style", ["grounded", "paper"])
def test_the_request_shows_all_that_is_needed_and_leaves_no_blank(style):
    text = request(SHOWN, style)

    assert all(part in text for part in (SHOWN.statement, SHOWN.source, SHOWN.arguments, SHOWN.trace))
    assert not [word for word in ("{statement}", "{source}", "{entry}", "{arguments}", "{trace}") if word in text]


def test_a_narration_that_is_proven_at_once_is_not_asked_for_again():
    model = Script("<think>2 times 3 …</think>\n\nSo double returns 6.")

    done = translated(model)

    assert (done.text, done.ok, done.repaired, len(model.asked)) == ("So double returns 6.", True, False, 1)


def test_a_narration_that_fails_is_repaired_once_with_the_failed_claims_quoted():
    model = Script("So double returns 7.", "So double returns 6.")

    done = translated(model)

    assert (done.text, done.ok, done.repaired) == ("So double returns 6.", True, True)
    assert model.asked[1][1:] == [
        {"role": "assistant", "content": "So double returns 7."},
        {"role": "user", "content": repair(["'double returns 7': it returns 6"])},
    ]
    assert (done.prompt_tokens, done.completion_tokens) == (20, 10)


def test_a_second_failure_is_the_last():
    model = Script("7", "7 again")

    done = translated(model)

    assert (done.reason, done.repaired, len(model.asked)) == ("not proven", True, 2)


@pytest.mark.parametrize(
    ("text", "finish", "reason"),
    [
        ("So double returns 6", "length", "cut short"),
        ("<think>2 times", "length", "unfinished thinking"),
        ("<think>6</think>", "stop", "empty"),
    ],
)
def test_what_is_no_narration_is_named_and_not_proven(text, finish, reason):
    done = translated(Script(text, finish=finish))

    assert (done.reason, done.verdict) == (reason, None)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("a", "a"),
        ("<think>x</think>a", "a"),
        ("x</think>\na", "a"),
        ("<THINK>x\n</THINK>a<think>y</think>b", "ab"),
        ("```text\na\nb\n```", "a\nb"),
        ("<think>x", None),
        ("1 < 2 and 3 > 2", "1 < 2 and 3 > 2"),
    ],
)
def test_thinking_is_stripped(text, left):
    assert without_thinking(text) == left


@contextlib.contextmanager
def server(*answers):
    """An endpoint that gives these (status, headers, body) in turn; yields its URL and what it was asked."""
    asked, left = [], list(answers)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            asked.append((self.path, self.headers.get("authorization"), json.loads(body)))
            status, headers, answer = left.pop(0) if len(left) > 1 else left[0]
            data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            for name, value in {**headers, "content-length": str(len(data))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *arguments):
            pass

    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=httpd.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{httpd.server_address[1]}/v1", asked
    finally:
        httpd.shutdown()
        httpd.server_close()


def completion(text, finish="stop"):
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": finish}
    return 200, {}, {"choices": [choice], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}


def ask(url, *texts, **options):
    async def all_of():
        async with Endpoint(url, "m", pause_s=0.0, **options) as endpoint:
            questions = [[{"role": "user", "content": text}] for text in texts]
            return await asyncio.gather(*map(endpoint.answer, questions), return_exceptions=True)

    return asyncio.run(all_of())


def test_a_request_has_the_model_its_options_and_the_key():
    with server(completion("hello")) as (url, asked):
        replies = ask(url, "hi", api_key="k", options={"temperature": 0.6})

    assert replies == [Reply(text="hello", finish="stop", prompt_tokens=7, completion_tokens=3)]
    messages = [{"role": "user", "content": "hi"}]
    assert asked == [("/v1/chat/completions", "Bearer k", {"model": "m", "temperature": 0.6, "messages": messages})]


def test_a_busy_endpoint_is_asked_again_and_a_refusal_is_not():
    busy = (429, {"retry-after": "0"}, {"error": "slow down"})
    with server(busy, (503, {}, b"no"), completion("now")) as (url, asked):
        replies = ask(url, "hi")
    assert ([reply.text for reply in replies], len(asked)) == (["now"], 3)

    with server((401, {}, {"error": "no such key"})) as (url, asked):
        (refused,) = ask(url, "hi")
    assert isinstance(refused, EndpointFailed)
    assert str(refused) == f'{url}/chat/completions: status 401: {{"error": "no such key"}}'
    assert len(asked) == 1


def test_attempts_end_and_the_last_problem_is_told():
    with server((500, {}, b"broken")) as (url, asked):
        (failed,) = ask(url, "hi", attempts=3)

    assert str(failed) == f"{url}/chat/completions: no answer in 3 attempts, the last time: status 500: broken"
    assert len(asked) == 3


@pytest.mark.parametrize("answer", [b"<html>", {"choices": []}, {"choices": [{}]}, []])
def test_what_is_no_completion_is_refused(answer):
    with server((200, {}, answer)) as (url, _):
        (failed,) = ask(url, "hi")

    assert isinstance(failed, EndpointFailed)
    assert str(failed).startswith("this is no chat completion: ")


def test_answers_are_paid_for_once_also_after_a_kill_in_the_middle_of_a_line(tmp_path):
    cache = tmp_path / "answers.jsonl"
    with server(completion("one")) as (url, asked):
        first = ask(url, "a", "b", cache=cache)
        whole = cache.read_bytes()
        cache.write_bytes(whole[:-20])
        second = ask(url, "a", "b", cache=cache)
        third = ask(url, "a", "b", cache=cache)

    assert [reply.cached for reply in first] == [False, False]
    assert sorted(reply.cached for reply in second) == [False, True]
    assert [reply.cached for reply in third] == [True, True]
    assert (len(asked), len(read_cache(cache))) == (3, 2)


def test_another_temperature_is_another_question(tmp_path):
    cache = tmp_path / "answers.jsonl"
    with server(completion("one")) as (url, asked):
        ask(url, "a", cache=cache, options={"temperature": 0.1})
        ask(url, "a", cache=cache, options={"temperature": 0.2})

    assert len(asked) == 2
