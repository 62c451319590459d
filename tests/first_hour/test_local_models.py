"""A model on one's own machine: any OpenAI-compatible endpoint, by one option everywhere, with all its troubles."""

import asyncio
import base64
import contextlib
import http.server
import importlib.util
import json
import threading
import time
from pathlib import Path

import pytest

from groundbox.agent.messages import RUN, Call, Message, ModelFailed, Tool
from groundbox.agent.pictures import Picture
from groundbox.agent.served import FENCES, ServedModel
from groundbox.endpoint.chat import ChatApi, EndpointFailed

_SPEC = importlib.util.spec_from_file_location(
    "endpoint_fakes_for_first_hour", Path(__file__).parents[1] / "dataset" / "endpoint_fakes.py"
)
_FAKES = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(_FAKES)
completion, serving = _FAKES.completion, _FAKES.serving

TOOL = Tool(name=RUN, description="Run.", parameters={"type": "object"})
ASKED = [Message(role="system", text="Be brief."), Message(role="user", text="How many?")]
RAN = [
    *ASKED,
    Message(role="assistant", text="", calls=[Call(name=RUN, arguments={"code": "6 * 7"}, call_id="c1")]),
    Message(
        role="tool",
        text="42",
        call_id="c1",
        pictures=[Picture(name="display 1", media_type="image/png", data=b"\x89PNG")],
    ),
]


def reply(url, messages=ASKED, **options):
    model = ServedModel(url, "m", **{"pause_s": 0.0, **options})
    return asyncio.run(model.complete(messages, tools=[TOOL]))


@contextlib.contextmanager
def server(*answers):
    """An endpoint that gives these (status, headers, body) in turn, the last one for ever."""
    left = list(answers)
    with serving(lambda body, key: left.pop(0) if len(left) > 1 else left[0]) as (url, asked):
        yield url, asked


def calling(code):
    function = {"name": RUN, "arguments": json.dumps({"code": code})}
    message = {"role": "assistant", "content": None, "tool_calls": [{"type": "function", "function": function}]}
    return 200, {}, {"choices": [{"message": message, "finish_reason": "tool_calls"}]}


def test_a_served_model_is_offered_the_tools_and_its_calls_come_back():
    with server(calling("6 * 7")) as (url, asked):
        said = reply(url, api_key="k")

    assert [(call.name, json.loads(call.arguments), call.call_id) for call in said.calls] == [
        (RUN, {"code": "6 * 7"}, "call-1")
    ]
    path, key, body = asked[0]
    assert (path, key, body["model"]) == ("/v1/chat/completions", "Bearer k", "m")
    assert body["tools"] == [
        {"type": "function", "function": {"name": RUN, "description": "Run.", "parameters": {"type": "object"}}}
    ]


def test_results_go_back_under_their_call_and_pictures_after_them():
    with server(completion("It is 42.")) as (url, asked):
        said = reply(url, RAN)

    assert said.text == "It is 42."
    address = "data:image/png;base64," + base64.b64encode(b"\x89PNG").decode()
    assert asked[0][2]["messages"][2:] == [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": RUN, "arguments": '{"code": "6 * 7"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "42"},
        {
            "role": "user",
            "content": [{"type": "text", "text": "display 1:"}, {"type": "image_url", "image_url": {"url": address}}],
        },
    ]


@pytest.mark.parametrize(
    "refusal",
    [
        (400, {}, {"error": {"message": "registry.ollama.ai/library/gemma3 does not support tools"}}),
        (500, {}, {"error": {"code": 500, "message": "tools param requires --jinja flag"}}),
        (400, {}, {"error": '"auto" tool choice requires --enable-auto-tool-choice'}),
    ],
)
def test_a_model_without_tools_is_told_to_write_fenced_programs(refusal):
    def answer(body, key):
        if body["messages"][0]["content"] == "Say yes.":
            return completion("yes")
        return refusal if "tools" in body else completion("```python\n6 * 7\n```")

    text_only = [*RAN[:-1], Message(role="tool", text="42", call_id="c1")]
    with serving(answer) as (url, asked):
        said = reply(url, text_only)

    told = asked[-1][2]
    assert said.text == "```python\n6 * 7\n```"
    assert "tools" not in told
    assert [message["role"] for message in told["messages"]] == ["system", "user", "assistant", "user"]
    assert told["messages"][0]["content"] == f"Be brief.\n\n{FENCES}"
    assert told["messages"][2]["content"] == "```python\n6 * 7\n```"


def test_a_model_that_sees_no_pictures_is_asked_without_them():
    def answer(body, key):
        text = json.dumps(body["messages"])
        refused = (500, {}, {"error": {"message": "image input is not supported - hint: use --mmproj"}})
        return refused if "image_url" in text else completion("It is 42.")

    with serving(answer) as (url, _):
        assert reply(url, RAN).text == "It is 42."


def test_thinking_is_no_part_of_an_answer():
    with server(completion("<think>6 times 7</think>It is 42.")) as (url, _):
        assert reply(url).text == "It is 42."


def test_a_web_page_instead_of_an_api_is_told_with_a_better_url():
    page = (200, {"content-type": "text/html"}, b"<!doctype html><html><title>Welcome\n to nginx</title>")
    with server(page) as (url, _):
        base = url.removesuffix("/v1")
        with pytest.raises(ModelFailed) as failed:
            reply(base)

    assert f"{base}/chat/completions: this is no chat completion: a web page, 'Welcome to nginx'" in str(failed.value)
    assert str(failed.value).endswith(f"perhaps {base}/v1")


def streamed(*chunks, done=True):
    """Return the answer of an endpoint that streams without being asked to."""
    lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    body = ": keep-alive\n\n" + "".join(lines) + ("data: [DONE]\n\n" if done else "")
    return 200, {"content-type": "text/event-stream"}, body.encode()


def piece(delta, finish=None):
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def test_an_endpoint_that_streams_unasked_is_read_as_one_that_does_not():
    other = {"choices": [{"index": 1, "delta": {"content": "another choice"}}]}
    text = streamed(
        piece({"role": "assistant", "content": "It is "}), other, piece({"content": "42."}), piece({}, "stop")
    )
    call = [
        {"index": 0, "id": "c1", "function": {"name": RUN, "arguments": '{"code": '}},
        {"index": 0, "function": {"arguments": '"6 * 7"}'}},
    ]
    calls = streamed(*(piece({"tool_calls": [each]}) for each in call), piece({}, "tool_calls"), done=False)

    with server(text, calls) as (url, _):
        assert reply(url).text == "It is 42."
        assert reply(url).calls == [Call(name=RUN, arguments='{"code": "6 * 7"}', call_id="c1")]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (streamed(piece({"content": "It is"}), {"error": {"message": "the model crashed"}}), ": the model crashed"),
        (streamed(piece({"content": "It is"}), done=False), ""),
        (streamed({"done": True, "response": "hi"}), ""),
    ],
)
def test_a_stream_without_a_whole_answer_is_refused_as_what_it_is(body, reason):
    with server(body) as (url, _), pytest.raises(ModelFailed) as failed:
        reply(url)

    assert str(failed.value).endswith(f"the endpoint sent a stream of events without a whole answer{reason}")


def test_an_unknown_model_is_told_in_the_endpoints_own_words():
    missing = (404, {}, {"error": {"message": 'model "m" not found, try pulling it first', "type": "api_error"}})
    with server(missing) as (url, _), pytest.raises(ModelFailed) as failed:
        reply(url)

    assert 'status 404: model "m" not found, try pulling it first; either there is no such model' in str(failed.value)


def test_a_busy_endpoint_is_waited_for_and_the_wait_is_told():
    said, busy = [], (429, {"retry-after": "0"}, {"error": {"message": "rate limit"}})
    with server(busy, busy, completion("now")) as (url, asked):
        found = reply(url, told=said.append)

    assert (found.text, len(asked)) == ("now", 3)
    assert said == [f"{url}/chat/completions: status 429: rate limit; asking again in 0 s"] * 2


@contextlib.contextmanager
def dripping():
    """Yields the URL of an endpoint that sends a byte now and then, and never ends."""
    over = threading.Event()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.end_headers()
            with contextlib.suppress(OSError):
                while not over.wait(0.05):
                    self.wfile.write(b" ")
                    self.wfile.flush()

        def log_message(self, *arguments):
            pass

    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.daemon_threads = True
    httpd.block_on_close = False
    threading.Thread(target=httpd.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{httpd.server_address[1]}/v1"
    finally:
        over.set()
        httpd.shutdown()
        httpd.server_close()


def test_an_endpoint_that_drips_bytes_does_not_hold_a_request_for_ever():
    async def ask(url):
        async with ChatApi(url, timeout_s=0.4, attempts=2, pause_s=0.0) as api:
            await asyncio.wait_for(api.complete({"model": "m", "messages": []}), 60)

    started = time.monotonic()
    with (
        dripping() as url,
        pytest.raises(EndpointFailed, match="no answer in 2 attempts.*no whole answer within"),
    ):
        asyncio.run(ask(url))

    assert time.monotonic() - started < 60


def test_ask_goes_to_an_endpoint_and_runs_what_the_model_writes(command):
    with server(calling("print(6 * 7)"), completion("It is 42.")) as (url, asked):
        ran = command("ask", "What is 6 times 7?", "--endpoint", url, "--model", "m")

    assert (ran.code, ran.stdout) == (0, "It is 42.\n"), ran.stderr
    assert "42" in asked[1][2]["messages"][-1]["content"]


def test_a_model_that_says_nothing_ends_the_conversation_in_words(command):
    with server(completion("")) as (url, _):
        ran = command("ask", "q", "--endpoint", url, "--model", "m")

    assert (ran.code, ran.stdout) == (1, "")
    assert "no answer: 3 replies in a row could not be used" in ran.stderr


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--endpoint", "http://localhost:1/v1"], "--endpoint http://localhost:1/v1 needs --model NAME"),
        (["--endpoint", "localhost:1", "--model", "m"], "'localhost:1' is no URL of an API"),
        (["--model", "openai:m", "--api-key-env", "K"], "is the key of an --endpoint, and none is named"),
        (
            ["--endpoint", "http://localhost:1/v1", "--model", "m", "--api-key-env", "NO_SUCH_KEY"],
            "the environment variable NO_SUCH_KEY holds no key",
        ),
    ],
)
def test_what_is_missing_is_said_before_anything_runs(command, monkeypatch, options, complaint):
    monkeypatch.delenv("GROUNDBOX_MODEL", raising=False)
    monkeypatch.delenv("GROUNDBOX_ENDPOINT", raising=False)

    ran = command("ask", "q", *options)

    assert (ran.code, ran.stdout) == (2, "")
    assert complaint in " ".join(ran.stderr.split())


def test_translate_names_the_endpoint_by_the_same_option(command):
    told = [command(*words, "--help").stdout for words in (["ask"], ["dataset", "translate"], ["a2a"])]

    assert all("--endpoint URL" in text and "--api-key-env VAR" in text for text in told)
    assert all("GROUNDBOX_ENDPOINT" in text for text in told)
