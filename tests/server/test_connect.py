"""Sandboxes on a server, used like local ones: `groundbox.connect`."""

import asyncio
import errno
import gc
import inspect
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import Any

import pytest

import groundbox as gb
from groundbox.errors import (
    EnvironmentFailed,
    GuestFileError,
    GuestProcessError,
    InvalidArgument,
    ServerRefused,
    ServerUnreachable,
)
from groundbox.remote.checkpoint import RemoteCheckpoint
from groundbox.remote.sandbox import RemoteFiles, RemoteGuestFiles, RemoteSandbox
from groundbox.sandbox import options
from groundbox.sandbox.branching import Checkpoint
from groundbox.sandbox.files import AsyncFiles
from groundbox.sandbox.guestfiles import AsyncGuestFiles
from groundbox.sandbox.portal import PORTAL
from groundbox.sandbox.sandbox import AsyncSandbox
from groundbox.server import schemas

OF_THE_ENGINE = {"worker", "lock", "spoil", "write_back", "write_all", "use_aide", "takes_orders", "order_taker"}


def path_of(box: Any):
    return box.asynchronous.path()


@pytest.fixture
def there(server):
    """The shared server, connected to."""
    with gb.connect(server.url, api_key=server.token) as connection:
        yield connection


def public(kind):
    return {name for name in dir(kind) if not name.startswith("_")} - OF_THE_ENGINE


@pytest.mark.parametrize(
    ("local", "remote"),
    [
        (AsyncSandbox, RemoteSandbox),
        (AsyncFiles, RemoteFiles),
        (AsyncGuestFiles, RemoteGuestFiles),
        (Checkpoint, RemoteCheckpoint),
    ],
)
def test_a_remote_sandbox_has_the_methods_and_arguments_of_a_local_one(local, remote):
    for name in public(local):
        here, elsewhere = getattr(local, name), getattr(remote, name)
        if isinstance(here, property):
            continue
        assert list(inspect.signature(here).parameters) == list(inspect.signature(elsewhere).parameters), name

    assert public(local) - public(remote) == set()


@pytest.mark.parametrize("asked", [schemas.CreateAsked, schemas.RunAsked])
def test_a_server_takes_every_setting_of_a_sandbox_that_is_not_of_this_process_alone(asked):
    here_only = {"tools", "databases", "backend", "waive", "engine"}

    assert options.SANDBOX - set(asked.__struct_fields__) == here_only


def test_one_program_gives_what_it_gives_here(there):
    program = "import json\nprint(json.dumps({'a': 1}))\nopen('out.txt', 'w').write('x')\n6 * 7"

    here, elsewhere = gb.run(program), there.run(program)

    same = ("outcome", "exit_code", "stdout", "stderr", "value", "error", "warnings", "state", "trust", "language")
    assert {name: getattr(here, name) for name in same} == {name: getattr(elsewhere, name) for name in same}
    assert elsewhere.artifacts["out.txt"].read() == b"x"
    assert elsewhere.usage.wall_s > 0


def test_a_sandbox_keeps_its_state_between_runs_and_ends_with_its_block(there, client):
    with there.Sandbox() as box:
        box.run("x = 1")
        execution = box.run("x + 1")
        alive = len(client.get("/v1/sandboxes").json()["sandboxes"])

    assert execution.text == "2"
    assert len(client.get("/v1/sandboxes").json()["sandboxes"]) == alive - 1


def test_files_are_put_listed_read_and_removed(there, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a b.txt").write_text("hello")

    with there.Sandbox() as box:
        box.files.write("x/ü.bin", b"\x00\xff")
        box.files.put(tmp_path / "folder")
        listed = box.files.list()
        read = box.files.read("x/ü.bin")
        box.files.remove("x")
        left = box.files.list()
        with pytest.raises(GuestFileError) as caught:
            box.files.read("nothing")

    assert listed == {"folder/a b.txt": 5, "x/ü.bin": 2}
    assert read == b"\x00\xff"
    assert left == {"folder/a b.txt": 5}
    assert caught.value.path == "nothing"


def test_guest_files_are_those_that_programs_see(there):
    with there.Sandbox() as box:
        box.guest_files.write("/tmp/seen.txt", "abc", mode=0o600)
        entry = box.guest_files.stat("/tmp/seen.txt")
        found = box.guest_files.list("/tmp").entries
        real = box.guest_files.realpath("/tmp/../tmp/seen.txt")
        workdir = box.guest_files.workdir()

    assert (entry.kind, entry.size_bytes, entry.mode) == ("file", 3, 0o600)
    assert "seen.txt" in [each.name for each in found]
    assert real.endswith("/tmp/seen.txt")
    assert workdir.startswith("/")


def test_events_come_as_they_happen(there):
    program = "import time\nfor i in range(3):\n    print(i, flush=True)\n    time.sleep(0.2)"

    times = []
    with there.Sandbox() as box:
        kinds = []
        for event in box.stream(program):
            kinds.append(event.kind)
            times.append(time.monotonic())

    assert kinds == ["stdout", "stdout", "stdout", "end"]
    assert times[2] - times[0] > 0.3


def test_a_stream_that_is_left_ends_its_run(there, client):
    with there.Sandbox() as box:
        for _ in box.stream("while True: print(1)"):
            break
        deadline = time.monotonic() + 2
        while "groundbox_runs_running 0.0" not in client.get("/metrics").text and time.monotonic() < deadline:
            time.sleep(0.05)

        assert "groundbox_runs_running 0.0" in client.get("/metrics").text


def test_an_interrupt_stops_the_cell_and_keeps_variables(there):
    with there.Sandbox() as box:
        box.run("x = 1")
        threading.Timer(0.5, box.interrupt).start()
        stopped = box.run("while True: pass")
        after = box.run("x")

    assert stopped.error.type == "KeyboardInterrupt"
    assert after.text == "1"


def test_a_client_that_waits_for_an_answer_takes_no_processor_meanwhile(there):
    there.run("1")
    began, used = time.monotonic(), time.process_time()

    there.run("import time; time.sleep(2)")

    assert time.process_time() - used < (time.monotonic() - began) / 4


def test_a_trace_comes_with_its_execution(there):
    execution = there.run("a = 1\nb = a + 1\n", trace=True, mode="script")

    assert execution.trace.header.complete
    assert execution.trace.summary() == gb.run("a = 1\nb = a + 1\n", trace=True, mode="script").trace.summary()


def test_long_output_is_read_from_the_server(there):
    execution = there.run("for i in range(50000): print('line', i)", limits=gb.Limits(output_bytes=1000))

    whole = "".join(f"line {i}\n" for i in range(50000))
    assert execution.dropped_bytes["stdout"] > 0
    assert execution.outputs["stdout"].read(1000, 50) == whole.encode()[1000:1050]
    (found,) = execution.outputs["stdout"].search("line 49999$")
    assert (found.number, found.line) == (50000, "line 49999")


def test_pictures_of_files_and_displays_come_along(there):
    program = (
        "import matplotlib.pyplot as plt\nfrom IPython.display import display\nfigure = plt.figure(figsize=(20, 10))\n"
        "figure.savefig('chart.pdf')\nprint('drawn')\ndisplay('a word')\nplt.show()"
    )

    here, elsewhere = gb.run(program), there.run(program)

    assert [each.preview is not None for each in here.displays] == [False, True]
    assert [each.preview for each in elsewhere.displays] == [each.preview for each in here.displays]
    assert elsewhere.artifacts["chart.pdf"].preview.startswith(b"\x89PNG")
    assert elsewhere.artifacts["chart.pdf"].preview == here.artifacts["chart.pdf"].preview


def test_code_with_an_event_loop_uses_it_directly(server):
    async def work():
        async with gb.connect(server.url, api_key=server.token) as there, there.AsyncSandbox() as box:
            executions = await asyncio.gather(*(there.run_async(f"{i} * 2") for i in range(5)))
            return [each.text for each in executions], (await box.run("1 + 1")).text

    assert asyncio.run(work()) == (["0", "2", "4", "6", "8"], "2")


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"tools": [print]}, InvalidArgument, "tools: are functions of this process"),
        ({"waive": ["cgroup"]}, InvalidArgument, "waive: is the server's to choose"),
        ({"limits": gb.Limits(wall_s=None)}, InvalidArgument, "wall_s: may not be unlimited on a server"),
        ({"limits": gb.Limits(wall_s=1e6)}, InvalidArgument, "limits.wall_s: may be at most 3600"),
        ({"environment": "no-such"}, EnvironmentFailed, "no-such"),
        ({"timeout": 3}, InvalidArgument, "timeout"),
    ],
)
def test_what_cannot_be_had_there_is_refused_in_words(there, options, error, words):
    with pytest.raises(error, match=words):
        there.run("1", **options)


def test_errors_are_those_of_a_local_sandbox(there):
    with there.Sandbox() as box:
        ended = box.run("import os, signal\nos.kill(1, 0)\nos._exit(3)")
        with pytest.raises(gb.SandboxLost):
            box.run("1")
        box.restart()
        after = box.run("1").text
    with pytest.raises(gb.SandboxClosed):
        box.run("1")

    assert ended.state in ("lost", "ended")
    assert after == "1"


def test_a_wrong_key_and_no_server_are_told(server):
    with pytest.raises(ServerRefused, match="401 unauthorized"):
        gb.connect(server.url, api_key="wrong-key-of-some-length").run("1")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(ServerUnreachable, match=f"http://127.0.0.1:{port} cannot be reached"):
        gb.connect(f"http://127.0.0.1:{port}").run("1")


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "ftp://x", "unix://x", "http://", "http://u:p@h", "http://h?x=1", 7])
def test_a_url_that_is_none_is_refused(url):
    with pytest.raises(InvalidArgument, match="url"):
        gb.connect(url)


def test_something_else_that_answers_is_told():
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer():
            connection, _ = listening.accept()
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
            connection.close()

        threading.Thread(target=answer).start()
        with pytest.raises(ServerUnreachable, match="no JSON: 'hello'"):
            gb.connect(f"http://127.0.0.1:{listening.getsockname()[1]}").run("1")


def test_a_process_there_is_fed_heard_and_ended(there):
    with there.Sandbox() as box:
        process = box.start("while read line; do echo got $line; done; exit 3", tag="echo")
        alive = dict(box.processes)
        process.write("one\n")
        first = process.read()
        process.close_stdin()
        rest = list(process.output())
        ended = process.wait()

    assert alive[process.pid].tag == "echo"
    assert (first.stream, first.data) == ("stdout", b"got one\n")
    assert (rest, ended.code) == ([], 3)


def test_a_process_there_goes_on_beside_runs_until_a_signal(there):
    with there.Sandbox() as box:
        process = box.start("sleep 1000")
        text = box.run("6 * 7").text
        process.signal(15)
        ended = process.wait(timeout_s=30)
        with pytest.raises(GuestProcessError) as caught:
            box.start(["no-such-program"])

    assert (text, ended.signal) == ("42", 15)
    assert caught.value.errno == errno.ENOENT


@pytest.mark.parametrize("hold", [True, False])
def test_a_sandbox_that_is_held_lives_however_idle(server, client, hold):
    with gb.connect(server.url, api_key=server.token, hold=hold) as there:
        box = there.Sandbox()
        box.run("x = 1")
        held = PORTAL.call(path_of(box))
        client.post(f"{held}/timeout", json={"total_s": 3600})
        told = client.get(held).json()
        box.close()

    assert told["busy"] == hold
    assert client.get(held).status_code == 404


def test_a_sandbox_that_is_held_ends_with_the_last_reference_to_it(server, client):
    with gb.connect(server.url, api_key=server.token, hold=True) as there:
        box = there.Sandbox()
        held = PORTAL.call(path_of(box))
        alive = client.get(held).status_code
        del box
        gc.collect()

        assert alive == 200
        assert until(lambda: client.get(held).status_code == 404)


def test_a_sandbox_that_is_held_ends_with_its_process(server, client):
    program = (
        "import os, groundbox as gb\nfrom groundbox.sandbox.portal import PORTAL\n"
        f"box = gb.connect({server.url!r}, api_key={server.token!r}, hold=True).Sandbox()\n"
        "print(PORTAL.call(box.asynchronous.path()), flush=True)\ninput()"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        held = process.stdout.readline().decode().strip()
        alive = client.get(held).status_code
        process.kill()

    assert alive == 200
    assert until(lambda: client.get(held).status_code == 404)


def until(condition, seconds=10):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


def test_a_server_that_holds_nothing_is_not_taken_for_one_that_does(server, client):
    before = client.get("/v1/sandboxes").json()["sandboxes"]
    with gb.connect(server.url, api_key=server.token, hold=True) as there:
        box = there.Sandbox()
        asked = there._transport

        def elsewhere():
            transport = asked()
            told = transport.stream
            transport.stream = lambda method, path, **more: told(method, path.replace("/hold", "/nothing"), **more)
            return transport

        there._transport = elsewhere
        for _ in range(2):
            with pytest.raises(ServerRefused):
                box.run("1")

        assert client.get("/v1/sandboxes").json()["sandboxes"] == before


def test_output_that_is_no_text_comes_with_its_bytes(there):
    with there.Sandbox(profile="bare") as box:
        written = box.run(r"import os; _ = os.write(1, b'a\xff')")
        printed = box.run(r"print('\ufffd')")

    assert (written.outputs["stdout"].read(), printed.outputs["stdout"].read()) == (b"a\xff", "\ufffd\n".encode())


def test_what_a_stream_replaces_and_clears_is_told(there):
    source = "display('a', display_id='x').update('b')\nget_ipython().display_pub.clear_output(wait=True)"
    with there.Sandbox() as box:
        told = [(each.kind, each.display_id, each.updates, each.waits) for each in box.stream(source)]

    assert told == [
        ("display", "x", False, False),
        ("display", "x", True, False),
        ("clear", None, False, True),
        ("end", None, False, False),
    ]


def test_a_process_has_ended_when_its_sandbox_is_closed(there):
    with there.Sandbox(profile="bare") as box:
        read, unread = box.start("echo written; sleep 600"), box.start("sleep 600")
        assert read.read().data == b"written\n"
        with pytest.raises(InvalidArgument, match="signal"):
            read.signal(1000)

    for process in (read, unread):
        assert process.wait() == (None, signal.SIGKILL)
        assert process.read() is None


@pytest.mark.parametrize("path", ["a\0b", "\udcff"])
def test_a_path_that_cannot_be_sent_is_an_argument_that_cannot_be_meant(there, path):
    with there.Sandbox(profile="bare") as box, pytest.raises(InvalidArgument, match="path"):
        box.files.write(path, b"x")


def test_a_stream_begins_anew_where_the_server_has_closed_the_idle_connection(there):
    with there.Sandbox(profile="bare") as box:
        box.run("1")
        transport = PORTAL.call(transport_of(there))
        (kept,) = transport._kept
        kept._reader.feed_eof()

        assert [each.kind for each in box.stream("print(1)")] == ["stdout", "end"]
        assert kept not in transport._kept


async def transport_of(connection):
    return connection._transport()
