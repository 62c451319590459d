"""OpenEnv's coding environment, as bare messages and as OpenEnv's own client and validator."""

import asyncio
import json
import socket
import time

import pytest

pytest.importorskip("websockets", reason="the extra `server` is not installed here")

from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

TOKEN = "a-key-of-some-length-for-tests"


class Episode:
    """A connection that says what it is told to say."""

    def __init__(self, server, token=TOKEN):
        url = f"ws{server.url.removeprefix('http')}/openenv/ws"
        self.socket = connect(url, additional_headers={"Authorization": f"Bearer {token}"}, close_timeout=1)

    def send(self, kind, data=None, **more):
        self.socket.send(json.dumps({"type": kind, **({} if data is None else {"data": data}), **more}))

    def receive(self):
        return json.loads(self.socket.recv(timeout=60))

    def ask(self, kind, data=None, **more):
        self.send(kind, data, **more)
        return self.receive()

    def step(self, code, **more):
        """What the model sees of a step."""
        told = self.ask("step", {"code": code, **more})
        assert told["type"] == "observation", told
        return told["data"]["observation"]


@pytest.fixture
def episode(server):
    made = Episode(server)
    yield made
    made.socket.close()


def boxes(client):
    return [box for box in client.get("/v1/sandboxes").json()["sandboxes"] if box["wire"] == "openenv"]


def running(client):
    text = client.get("/metrics").text
    return next(float(line.split()[1]) for line in text.splitlines() if line.startswith("groundbox_runs_running "))


def wait_until_running(client, count):
    """Seconds until so many runs go on."""
    begun = time.monotonic()
    while running(client) != count:
        assert time.monotonic() - begun < 10
        time.sleep(0.02)
    return time.monotonic() - begun


def seen(observation):
    return observation["stdout"], observation["exit_code"]


def test_an_episode_keeps_variables_and_files_and_a_reset_forgets_both(episode):
    begun = episode.ask("reset", {"seed": 1, "episode_id": "e1"})
    steps = [episode.step("x = 41; open('f', 'w').close(); print('out')"), episode.step("print('out', end='')\nx + 1")]
    state = episode.ask("state")
    episode.ask("reset", {})
    after = episode.step("import os; ('x' in globals(), os.listdir())")

    empty = {"stdout": "", "stderr": "", "exit_code": 0, "metadata": {}}
    assert begun == {
        "type": "observation",
        "data": {"observation": empty, "reward": None, "done": False, "metadata": {}},
    }
    assert [seen(step) for step in steps] == [("out\n", 0), ("out\n42", 0)]
    assert state == {"type": "state", "data": {"episode_id": "e1", "step_count": 2, "last_exit_code": 0}}
    assert seen(after) == ("(False, [])", 0)


@pytest.mark.parametrize(
    ("code", "exit_code", "outcome", "words"),
    [
        ("1 / 0", 1, "error", "ZeroDivisionError: division by zero"),
        ("def f(:", 1, "error", "SyntaxError"),
        ("import os; os._exit(3)", 3, "error", ""),
        ("import ctypes; ctypes.string_at(0)", 139, "signal", ""),
        ("", 0, "ok", ""),
        ("# nothing", 0, "ok", ""),
    ],
)
def test_a_program_that_fails_has_an_exit_code_and_words(episode, code, exit_code, outcome, words):
    observation = episode.step(code)
    after = episode.step("6 * 7")

    assert (observation["exit_code"], observation["metadata"]["outcome"]) == (exit_code, outcome)
    assert words in observation["stderr"]
    assert seen(after) == ("42", 0)


def test_a_step_that_takes_too_long_is_stopped_and_says_so(episode):
    observation = episode.step("print('begun', flush=True)\nimport time; time.sleep(60)", timeout_s=1)

    assert (observation["stdout"], observation["exit_code"]) == ("begun\n", 124)
    assert observation["metadata"]["outcome"] == "timeout"


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        ("{", "INVALID_JSON"),
        ("[" * 100_000, "VALIDATION_ERROR"),
        ('"text', "INVALID_JSON"),
        ('{"data": {}}', "VALIDATION_ERROR"),
        ('{"type": "step", "data": {"cod": "1"}}', "VALIDATION_ERROR"),
        ('{"type": "step", "data": {"code": 1}}', "VALIDATION_ERROR"),
        ('{"type": "reset", "data": {"episode_id": 1}}', "VALIDATION_ERROR"),
        ('{"type": "dance"}', "UNKNOWN_TYPE"),
    ],
)
def test_a_message_that_cannot_be_meant_is_an_error_and_the_episode_goes_on(episode, raw, code):
    episode.socket.send(raw)
    told = episode.receive()

    assert (told["type"], told["data"]["code"]) == ("error", code)
    assert episode.ask("state")["type"] == "state"


def test_an_environment_without_tools_says_so(episode):
    told = episode.ask("mcp", {"jsonrpc": "2.0", "id": 7, "method": "tools/list"})

    assert (told["type"], told["data"]["id"], told["data"]["error"]["code"]) == ("mcp", 7, -32601)


def test_messages_with_ids_are_answered_in_their_order_with_their_ids(episode):
    for number in range(3):
        data = {"code": f"import time; time.sleep({0.5 - number / 5}); {number}"}
        episode.send("step", data, request_id=f"r{number}")

    told = [episode.receive() for _ in range(3)]

    assert [(each["request_id"], each["data"]["observation"]["stdout"]) for each in told] == [
        ("r0", "0"),
        ("r1", "1"),
        ("r2", "2"),
    ]


def test_a_step_that_outlives_its_client_shifts_no_answer(episode, client):
    episode.step("1")
    episode.send("step", {"code": "import time; time.sleep(60); 'late'"})
    wait_until_running(client, 1)

    told = episode.ask("step", {"code": "'next'"})

    assert (told["type"], told["data"]["code"]) == ("error", "SESSION_ERROR")
    assert wait_until_running(client, 0) < 1
    with pytest.raises(ConnectionClosed):
        episode.receive()


@pytest.mark.parametrize("how", ["close", "gone"])
def test_the_end_of_a_connection_ends_its_run_and_its_sandbox_within_a_second(server, client, how):
    episode = Episode(server)
    episode.step("1")
    episode.send("step", {"code": "import time; time.sleep(60)"})
    wait_until_running(client, 1)

    if how == "close":
        episode.send("close")
    else:
        episode.socket.socket.shutdown(socket.SHUT_RDWR)

    assert wait_until_running(client, 0) < 1
    time.sleep(0.5)
    assert boxes(client) == []
    episode.socket.close()


def test_connections_see_nothing_of_each_other(server, episode):
    other = Episode(server)
    episode.step("x = 1; open('f', 'w').close()")

    apart = other.step("import os; ('x' in globals(), os.path.exists('f'))")
    other.socket.close()

    assert seen(apart) == ("(False, False)", 0)


def test_no_room_is_an_error_and_no_observation(server, client):
    quotas = {"sandboxes": 1}
    made = client.post("/v1/keys", json={"owner": "small", "scopes": ["run"], "quotas": quotas}).json()
    first, second = Episode(server, made["key"]), Episode(server, made["key"])
    first.step("1")

    told = second.ask("step", {"code": "1"})
    first.socket.close()
    second.socket.close()

    assert (told["type"], told["data"]["code"], told["data"]["status"]) == ("error", "CAPACITY_REACHED", 429)


def test_a_wrong_key_gets_no_connection(server):
    with pytest.raises(InvalidStatus, match="401"):
        Episode(server, "wrong")


def test_over_http_each_step_has_a_sandbox_of_its_own(client):
    first = client.post("/openenv/step", json={"action": {"code": "x = 1; print('out')"}, "request_id": "r"})
    second = client.post("/openenv/step", json={"action": {"code": "x"}, "timeout_s": 30})
    reset = client.post("/openenv/reset", json={})
    invalid = client.post("/openenv/step", json={"action": {}})
    refused = client.post("/openenv/step", json={"action": {"code": "1"}, "timeout_s": 1e9})

    assert (first.json()["observation"]["stdout"], first.json()["metadata"]["request_id"]) == ("out\n", "r")
    assert "NameError" in second.json()["observation"]["stderr"]
    assert (reset.json()["reward"], reset.json()["done"]) == (None, False)
    assert (invalid.status_code, refused.status_code) == (422, 400)
    assert client.get("/openenv/state").json() == {"episode_id": None, "step_count": 0, "last_exit_code": 0}


def test_openenvs_validator_finds_nothing_amiss(server):
    validation = pytest.importorskip("openenv.cli._validation", reason="openenv is not installed here: make clients")

    report = validation.validate_running_environment(f"{server.url}/with-key/{TOKEN}/openenv", timeout_s=30)

    assert [each["id"] for each in report["criteria"] if not each["passed"]] == []
    assert (report["passed"], report["mode"], report["standard_profile"]) == (True, "simulation", "openenv-http/1.x")


def test_openenvs_generic_client_steps_through_an_episode(server):
    openenv = pytest.importorskip("openenv", reason="openenv is not installed here: make clients")

    async def work():
        async with openenv.GenericEnvClient(base_url=f"{server.url}/with-key/{TOKEN}/openenv") as env:
            begun = await env.reset(episode_id="mine")
            await env.step({"code": "x = 6"})
            result = await env.step({"code": "print(x * 7)"})
            failed = await env.step({"code": "1 / 0"})
            return begun, result, failed, await env.state()

    begun, result, failed, state = asyncio.run(work())

    assert (begun.observation["exit_code"], begun.reward, begun.done) == (0, None, False)
    assert (result.observation["stdout"], result.observation["exit_code"]) == ("42\n", 0)
    assert failed.observation["exit_code"] == 1
    assert state == {"episode_id": "mine", "step_count": 3, "last_exit_code": 1}


def test_openenvs_client_that_timed_out_gets_the_answers_to_its_own_messages(server, client):
    openenv = pytest.importorskip("openenv", reason="openenv is not installed here: make clients")

    async def work():
        url = f"{server.url}/with-key/{TOKEN}/openenv"
        async with openenv.GenericEnvClient(base_url=url, message_timeout_s=20) as env:
            await env.step({"code": "1"})
            env._message_timeout = 1.0
            with pytest.raises(TimeoutError):
                await env.step({"code": "import time; time.sleep(60); 'late'"})
            env._message_timeout = 20.0
            return (await env.step({"code": "'next'"})).observation["stdout"]

    assert asyncio.run(work()) == "'next'"
    assert wait_until_running(client, 0) < 1
