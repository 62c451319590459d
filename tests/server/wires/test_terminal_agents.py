"""Claude Code and Codex, unmodified, against mock APIs of their models: what the model is shown of our MCP results.

Each mock asks for one call after another and records what the command line sends back. Both are packages of npm that
`make clients` installs.
"""

import contextlib
import http.server
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import groundbox

SOURCES = Path(groundbox.__file__).parents[1]
BIN = Path(__file__).parent / "js" / "node_modules" / ".bin"
TOKEN = "a-key-of-some-length-for-tests"
PLOT = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\nprint('drawn')"
FAILURE = "prices = {'tea': 3}\nprices['Tea']"
LARGE = "for row in range(4000): print('row', row, '-' * 40)"  # 200 kB
PATIENCE_S = 120


class Mock(http.server.ThreadingHTTPServer):
    """An API of a model that calls `run_code` with each of `programs`, and then says that it is done.

    Attributes:
        results: What the command line sent back for each call, as its protocol has it.
        tools: Names of the tools that the model was offered.
    """

    def __init__(self, handler, programs):
        super().__init__(("127.0.0.1", 0), handler)
        self.calls = [{"code": program} for program in programs]
        self.results, self.tools = [], []

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"


class Handler(http.server.BaseHTTPRequestHandler):
    """Reads a request, and answers it with server-sent events or JSON."""

    protocol_version = "HTTP/1.1"
    server: Mock

    def answer(self, body):
        raise NotImplementedError

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.send("application/json", b'{"object": "list", "data": [], "models": []}')

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        self.answer(body)

    def send(self, media_type, data):
        self.send_response(200)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def send_events(self, events):
        lines = (f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n" for name, data in events)
        self.send("text/event-stream", "".join(lines).encode())


class Messages(Handler):
    """The Messages API, as Claude Code asks it."""

    def answer(self, body):
        mock = self.server
        if "/messages" not in self.path or "count_tokens" in self.path:
            return self.send("application/json", b'{"input_tokens": 10}')
        name = "mcp__groundbox__run_code"
        parts = [
            part
            for message in body["messages"]
            if message["role"] == "user" and isinstance(message["content"], list)
            for part in message["content"]
            if part.get("type") == "tool_result"
        ]
        offered = [tool.get("name") for tool in body.get("tools", [])]
        if name in offered:
            mock.results, mock.tools = parts, offered
        if name in offered and len(parts) < len(mock.calls):
            block = {"type": "tool_use", "id": f"toolu_{len(parts)}", "name": name, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(mock.calls[len(parts)])}
            reason = "tool_use"
        else:
            block, reason = {"type": "text", "text": ""}, "end_turn"
            delta = {"type": "text_delta", "text": "done"}
        message: dict[str, Any] = {
            "id": "msg_1", "type": "message", "role": "assistant", "model": body.get("model"), "content": [],
            "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 10, "output_tokens": 1},
        }  # fmt: skip
        if not body.get("stream"):
            done = {**message, "content": [{"type": "text", "text": "done"}], "stop_reason": "end_turn"}
            return self.send("application/json", json.dumps(done).encode())
        return self.send_events(
            [
                ("message_start", {"message": message}),
                ("content_block_start", {"index": 0, "content_block": block}),
                ("content_block_delta", {"index": 0, "delta": delta}),
                ("content_block_stop", {"index": 0}),
                (
                    "message_delta",
                    {"delta": {"stop_reason": reason, "stop_sequence": None}, "usage": {"output_tokens": 5}},
                ),
                ("message_stop", {}),
            ]
        )


class Responses(Handler):
    """The Responses API, as Codex asks it."""

    def answer(self, body):
        mock = self.server
        mock.results = [item for item in body.get("input", []) if item.get("type", "").endswith("_call_output")]
        space = next((tool for tool in body.get("tools", []) if "groundbox" in tool.get("name", "")), {})
        mock.tools = [tool["name"] for tool in space.get("tools", [])]
        count = len(mock.results)
        if count < len(mock.calls):
            named = {"namespace": space.get("name"), "name": "run_code"}
            arguments = json.dumps(mock.calls[count])
            item: dict[str, Any] = {
                "type": "function_call",
                "id": f"fc_{count}",
                "call_id": f"call_{count}",
                "status": "completed",
            }
            item |= {"arguments": arguments, **named}
        else:
            words: list[Any] = [{"type": "output_text", "text": "done", "annotations": []}]
            item = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": words}
        response: dict[str, Any] = {"id": f"resp_{count}", "object": "response", "status": "in_progress", "output": []}
        usage = {
            "input_tokens": 1, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 1,
            "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 2,
        }  # fmt: skip
        self.send_events(
            [
                ("response.created", {"response": response}),
                ("response.output_item.added", {"output_index": 0, "item": item}),
                ("response.output_item.done", {"output_index": 0, "item": item}),
                (
                    "response.completed",
                    {"response": {**response, "status": "completed", "output": [item], "usage": usage}},
                ),
            ]
        )


@contextlib.contextmanager
def mocked(handler, *programs):
    """A mock that answers, until the block ends."""
    with Mock(handler, programs) as mock:
        thread = threading.Thread(target=mock.serve_forever)
        thread.start()
        try:
            yield mock
        finally:
            mock.shutdown()
            thread.join()


def run_command(folder, *command, **environ):
    """Run a command line with a home folder of its own, and nothing of this process's environment but the path."""
    kept = {name: os.environ[name] for name in ("PATH", "GROUNDBOX_HOME", "LANG") if name in os.environ}
    kept["PYTHONPATH"] = str(SOURCES)
    done = subprocess.run(
        [str(part) for part in command], cwd=folder, env={**kept, "HOME": str(folder), "TERM": "dumb", **environ},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def ask_claude(folder, place, *programs):
    """The content that Claude Code sent its model for each program, as lists of blocks."""
    config = folder / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"groundbox": place}}))
    with mocked(Messages, *programs) as mock:
        run_command(
            folder, BIN / "claude", "-p", "run it", "--mcp-config", config, "--strict-mcp-config",
            "--allowedTools", "mcp__groundbox__run_code", "--model", "claude-opus-4-5",
            ANTHROPIC_BASE_URL=mock.url, ANTHROPIC_API_KEY="sk-ant-none", ENABLE_TOOL_SEARCH="false",
            MCP_CONNECTION_NONBLOCKING="false", MCP_TIMEOUT="60000", CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
            DISABLE_TELEMETRY="1", DISABLE_AUTOUPDATER="1",
        )  # fmt: skip
        assert len(mock.results) == len(programs), mock.tools
    contents = [result["content"] for result in mock.results]
    return [[{"type": "text", "text": each}] if isinstance(each, str) else each for each in contents]


def ask_codex(folder, place, *programs):
    """The output that Codex sent its model for each program, as lists of blocks."""
    with mocked(Responses, *programs) as mock:
        server = "\n".join(f"{name} = {json.dumps(value)}" for name, value in place.items())
        (folder / ".codex").mkdir()
        (folder / ".codex" / "config.toml").write_text(f"""
model = "gpt-5"
model_provider = "mock"
approval_policy = "never"
sandbox_mode = "danger-full-access"
[model_providers.mock]
name = "mock"
base_url = "{mock.url}/v1"
env_key = "MOCK_KEY"
wire_api = "responses"
supports_websockets = false
[mcp_servers.groundbox]
{server}
startup_timeout_sec = 60
default_tools_approval_mode = "approve"
[analytics]
enabled = false
[features]
tool_search = false
""")
        run_command(
            folder, BIN / "codex", "exec", "--skip-git-repo-check", "run it", MOCK_KEY="none", GROUNDBOX_KEY=TOKEN
        )
        assert len(mock.results) == len(programs), mock.tools
    outputs = [result["output"] for result in mock.results]
    return [[{"type": "input_text", "text": each}] if isinstance(each, str) else each for each in outputs]


def text_of(blocks):
    return "\n".join(block.get("text", "") for block in blocks)


def kinds_of(blocks):
    return {block["type"].removeprefix("input_") for block in blocks}


CLIENTS = {"claude": (ask_claude, "headers"), "codex": (ask_codex, "bearer")}


@pytest.fixture(params=["claude", "codex"])
def agent(request, tmp_path):
    """The function that asks one of the command lines, and how it names a server over HTTP."""
    if not (BIN / request.param).exists():
        pytest.skip(f"{request.param} is not installed here: make clients")
    ask, form = CLIENTS[request.param]

    def over_http(url):
        if form == "headers":
            return {"type": "http", "url": url, "headers": {"Authorization": f"Bearer {TOKEN}"}}
        return {"url": url, "bearer_token_env_var": "GROUNDBOX_KEY"}

    return (lambda place, *programs: ask(tmp_path, place, *programs)), over_http


def check_shown(plot, failure, large):
    assert kinds_of(plot) == {"text", "image"}
    assert "drawn" in text_of(plot)
    assert "KeyError: 'Tea'" in text_of(failure)
    assert "did you mean `'tea'`?" in text_of(failure)
    assert "row 0 " in text_of(large)
    assert "row 3999 " in text_of(large)
    assert "structuredContent" not in text_of(plot) + text_of(failure) + text_of(large)


def test_a_command_line_shows_its_model_text_pictures_and_hints(agent):
    ask, _ = agent
    # Codex hands no PYTHONPATH on to servers.
    arguments = [f"PYTHONPATH={SOURCES}", sys.executable, "-m", "groundbox", "mcp", "--no-engine"]
    place = {"command": "env", "args": arguments}

    check_shown(*ask(place, PLOT, FAILURE, LARGE))


def test_a_command_line_shows_its_model_the_same_over_http(agent, server):
    ask, over_http = agent

    check_shown(*ask(over_http(f"{server.url}/mcp"), PLOT, FAILURE, LARGE))
