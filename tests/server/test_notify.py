"""What a service manager hears of `groundbox serve`: sd_notify(3) over a socket of our own."""

import asyncio
import contextlib
import os
import signal
import socket
import time

import pytest

from groundbox.server.notify import Manager
from tests.server.conftest import serving


@pytest.fixture
def manager(tmp_path):
    """A socket that hears what systemd would."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as hearing:
        hearing.bind(str(tmp_path / "notify"))
        hearing.settimeout(30)
        yield hearing


def heard(hearing):
    """The next word, as a dictionary."""
    return dict(line.split("=", 1) for line in hearing.recv(4096).decode().splitlines())


def heard_until(hearing, name):
    """Words up to the first that tells `name`."""
    words = [heard(hearing)]
    while name not in words[-1]:
        words.append(heard(hearing))
    return words


def until_it_blocks(act):
    """Repeat what would wait sooner or later."""
    with contextlib.suppress(BlockingIOError):
        while True:
            act()


def test_a_server_says_that_it_is_ready_lives_and_stops(manager, tmp_path):
    environ = {"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "1000000"}

    with serving(tmp_path / "log", environ=environ) as server:
        first = heard(manager)
        with server.client(None) as client:
            answered = client.get("/livez").status_code
        alive = [heard(manager) for _ in range(3)]
        code = server.end()
        last = heard_until(manager, "STOPPING")[-1]

    assert (first["READY"], answered, code) == ("1", 200, 0)
    assert [each["WATCHDOG"] for each in alive] == ["1", "1", "1"]
    assert last["STOPPING"] == "1"
    assert last["STATUS"] == "ending what goes on"


def test_the_status_says_what_goes_on_and_why_nothing_can(manager, tmp_path):
    environ = {"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "400000"}

    with serving(tmp_path / "log", environ=environ):
        words = heard_until(manager, "READY")
        while words[-1].get("STATUS") != "0 sandboxes, 0 runs, 0 waiting":
            words.append(heard(manager))

    told = [each["STATUS"] for each in words if "STATUS" in each]
    assert told[0] == "not ready: the server is starting"
    assert told[-1] == "0 sandboxes, 0 runs, 0 waiting"


def test_a_loop_that_hangs_gives_no_sign_of_life(manager, tmp_path):
    environ = {"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "200000"}

    with serving(tmp_path / "log", environ=environ) as server:
        heard_until(manager, "WATCHDOG")
        server.process.send_signal(signal.SIGSTOP)
        time.sleep(0.5)
        manager.setblocking(False)
        until_it_blocks(lambda: heard(manager))
        time.sleep(0.5)
        with pytest.raises(BlockingIOError):
            heard(manager)
        server.process.send_signal(signal.SIGCONT)


def test_the_variables_are_taken_out_of_the_environment():
    environ = {"NOTIFY_SOCKET": "@x", "WATCHDOG_USEC": "5", "WATCHDOG_PID": str(os.getpid()), "PATH": "/bin"}

    Manager.of(environ)

    assert environ == {"PATH": "/bin"}


def test_a_watchdog_of_another_process_is_not_fed(tmp_path):
    assert Manager.of({"NOTIFY_SOCKET": "@x", "WATCHDOG_USEC": "9", "WATCHDOG_PID": "1"})._watchdog_s is None
    assert Manager.of({"NOTIFY_SOCKET": "@x", "WATCHDOG_USEC": "2000000"})._watchdog_s == 2.0


def test_names_without_a_path_are_sent_to():
    name = f"groundbox-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as hearing:
        hearing.bind(f"\0{name}")
        hearing.settimeout(10)

        asyncio.run(ready_once(Manager(f"@{name}"), "all\nSTOPPING=1"))

        assert heard(hearing) == {"READY": "1", "STATUS": "all STOPPING=1"}


def test_a_manager_that_takes_nothing_holds_nobody_up_and_hears_all_in_the_end(tmp_path):
    path = str(tmp_path / "notify")
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as hearing,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as filling,
    ):
        hearing.bind(path)
        filling.setblocking(False)
        until_it_blocks(lambda: filling.sendto(b"full", path))
        manager = Manager(path)

        asyncio.run(ready_once(manager, "well"))
        hearing.setblocking(False)
        until_it_blocks(lambda: hearing.recv(4096))
        manager.stopping()

        assert heard(hearing) == {"READY": "1", "STOPPING": "1", "STATUS": "ending what goes on"}


def test_nobody_and_a_manager_that_has_gone_are_no_failure(tmp_path):
    asyncio.run(ready_once(Manager.of({}), "well"))
    asyncio.run(ready_once(Manager(str(tmp_path / "gone")), "well"))


async def ready_once(manager, status):
    """Tell it once, without a beat after it."""
    manager.ready(lambda: status)
