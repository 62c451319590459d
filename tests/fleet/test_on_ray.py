"""Nodes that outlive who started them: as daemons of a machine, and on the machines of a Ray cluster."""

import contextlib
import dataclasses
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the extra `server` is not installed here")

from groundbox.errors import GroundboxError, InvalidArgument
from groundbox.fleet.on_ray import NAMESPACE, Daemon, RayNode, _names, _nodes, ray_nodes
from tests.fleet.conftest import SECRET

TOKEN = secrets.token_hex(32)  # Ray reads it once in a process
WAITS = """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
print("http://here/", flush=True)
signal.sigwait([signal.SIGTERM])
raise SystemExit({})
"""


def stat(pid):
    """Parent, session and group of a process of this machine; None when it is gone, or waits to be reaped."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            state, parent, group, session = file.read().rpartition(")")[2].split()[:4]
    except FileNotFoundError:
        return None
    return None if state == "Z" else (int(parent), int(session), int(group))


def until(holds, most_s=60.0):
    end = time.monotonic() + most_s
    while not (told := holds()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return told


@pytest.fixture
def daemon(tmp_path):
    """A daemon of this test's, which ends with it."""
    made = Daemon("ada", str(tmp_path))
    yield made

    def has_ended():
        (made.folder / "asked.json").unlink(missing_ok=True)
        with made._locked() as lock:
            if lock is None:
                with contextlib.suppress(FileNotFoundError, ValueError):
                    _kill(int((made.folder / "pid").read_text()))
        return lock is not None

    until(has_ended)


def command(exit_code=0):
    return [sys.executable, "-c", WAITS.format(exit_code)]


def test_a_daemon_is_nobodys_child_and_of_no_session_of_ours(daemon):
    node = daemon.adopt(command(), {}, wait_s=30)

    watcher, session, _ = stat(node.pid)
    assert (node.name, node.url, node.was_there) == ("ada", "http://here/", False)
    assert session not in (os.getsid(0), node.pid)
    assert stat(watcher)[0] != os.getpid()


def test_who_comes_second_adopts_what_the_first_has_started(daemon, tmp_path):
    first = daemon.adopt(command(), {}, wait_s=30)

    second = Daemon("ada", str(tmp_path)).adopt(command(), {}, wait_s=30)

    assert (second.pid, second.url, second.was_there) == (first.pid, first.url, True)


def test_of_many_that_come_at_once_one_starts_it(daemon, tmp_path):
    script = (
        "import sys; from groundbox.fleet.on_ray import Daemon; "
        f"node = Daemon('ada', {str(tmp_path)!r}).adopt({command()!r}, {{}}, wait_s=60); "
        "print(node.pid, node.was_there)"
    )

    at_once = [subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) for _ in range(4)]
    told = sorted(each.communicate(timeout=90)[0].split()[::-1] for each in at_once)

    assert [was_there for was_there, _ in told] == ["False", "True", "True", "True"]
    assert len({pid for _, pid in told}) == 1


def test_a_daemon_that_is_killed_is_started_anew(daemon):
    node = daemon.adopt(command(), {}, wait_s=30)

    assert not daemon.revive()
    os.kill(node.pid, signal.SIGKILL)
    until(daemon.revive)
    again = daemon.adopt(command(), {}, wait_s=30)

    assert again.was_there
    assert again.pid != node.pid


@pytest.mark.parametrize(("exit_code", "revived"), [(0, False), (3, True)])
def test_a_daemon_that_ends_well_was_told_to(daemon, exit_code, revived):
    node = daemon.adopt(command(exit_code), {}, wait_s=30)
    watcher, _, _ = stat(node.pid)

    os.kill(node.pid, signal.SIGTERM)
    until(lambda: stat(watcher) is None)

    assert daemon.revive() is revived


def test_a_daemon_with_another_command_is_left_alone_and_named(daemon):
    node = daemon.adopt(command(), {}, wait_s=30)

    with pytest.raises(GroundboxError, match="with another gateway, secret or options; `groundbox fleet leave ada`"):
        daemon.adopt(command(), {"GROUNDBOX_JOIN_SECRET": "another"}, wait_s=30)

    assert stat(node.pid) is not None


def test_a_daemon_that_cannot_start_is_told_with_its_last_words_and_not_tried_again(daemon):
    fails = [sys.executable, "-c", "raise SystemExit('no room')"]

    with pytest.raises(GroundboxError) as told:
        daemon.adopt(fails, {}, wait_s=30)

    assert str(told.value) == "the node ada ended before it answered: no room"
    assert not daemon.revive()


def test_a_daemon_has_the_variables_that_were_asked_for_and_none_of_rays(daemon, monkeypatch):
    monkeypatch.setenv("RAY_JOB_ID", "01")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("GROUNDBOX_JOIN_SECRET", "the one of who calls")

    node = daemon.adopt(command(), {"GROUNDBOX_JOIN_SECRET": SECRET}, wait_s=30)

    with open(f"/proc/{node.pid}/environ") as file:
        environ = dict(each.split("=", 1) for each in file.read().split("\0") if each)
    assert environ["GROUNDBOX_JOIN_SECRET"] == SECRET
    assert len(environ["GROUNDBOX_API_KEY"]) == 64
    assert not {"RAY_JOB_ID", "OMP_NUM_THREADS"} & set(environ)


def test_nobody_else_reads_a_daemons_folder(daemon):
    daemon.adopt(command(), {}, wait_s=30)

    assert daemon.folder.stat().st_mode & 0o777 == 0o700
    assert (daemon.folder / "asked.json").stat().st_mode & 0o777 == 0o600
    daemon.folder.chmod(0o755)
    with pytest.raises(GroundboxError, match="not this user's alone"):
        Daemon("ada", str(daemon.folder.parent))


def test_a_link_in_place_of_a_daemons_folder_is_not_followed(tmp_path):
    (tmp_path / "own").mkdir(mode=0o700)
    (tmp_path / "node-ada").symlink_to(tmp_path / "own")

    with pytest.raises(GroundboxError, match="node-ada' is not this user's alone; remove it"):
        Daemon("ada", str(tmp_path))

    assert list((tmp_path / "own").iterdir()) == []


def test_a_long_log_is_put_aside_when_a_daemon_is_started(daemon):
    log = daemon.folder / "log"
    with log.open("wb") as file:
        file.truncate((16 << 20) + 1)

    daemon.adopt(command(), {}, wait_s=30)

    assert (daemon.folder / "log.1").stat().st_size == (16 << 20) + 1
    assert log.stat().st_size == 0


def test_of_a_long_log_the_end_alone_is_read_for_its_last_words(daemon):
    with (daemon.folder / "log").open("wb") as file:
        file.truncate(2**40)  # without taking room on the disk
        file.seek(0, os.SEEK_END)
        file.write(b"\nthe port is taken\n")

    with pytest.raises(GroundboxError, match="the node ada ended: .*the port is taken$"):
        daemon._fail("ended")


def machine(number, name, host):
    return {"NodeID": f"{number}", "NodeManagerHostname": name, "NodeManagerAddress": host}


def test_two_raylets_of_one_machine_have_one_name_and_two_machines_of_one_name_are_refused():
    assert _names([machine(1, "ada b", "10.0.0.1"), machine(2, "ada b", "10.0.0.1")]) == {
        "1": ("ada-b", "10.0.0.1"),
        "2": ("ada-b", "10.0.0.1"),
    }
    with pytest.raises(GroundboxError, match="the machines 10.0.0.1 and 10.0.0.2 are both called ada, .*hostname"):
        _names([machine(1, "ada", "10.0.0.1"), machine(2, "ada", "10.0.0.2")])


def test_a_node_that_one_of_two_raylets_has_started_is_told_as_started():
    node = RayNode(name="ada", url="http://10.0.0.1:1/", pid=7, was_there=True)
    started = dataclasses.replace(node, was_there=False)

    assert _nodes([started, node]) == _nodes([node, started]) == [started]
    assert _nodes([node, node]) == [node]


def test_no_machine_is_asked_with_a_secret_that_is_soon_guessed():
    with pytest.raises(InvalidArgument, match="GROUNDBOX_JOIN_SECRET"):
        ray_nodes("http://127.0.0.1:8000", secret="short")


@pytest.fixture
def ray(monkeypatch):
    monkeypatch.setenv("RAY_AUTH_TOKEN", TOKEN)  # else one is written into the home folder
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    found = pytest.importorskip("ray", reason="Ray is not installed here")
    folder = f"/tmp/gbray-{os.getpid()}"  # paths of Ray's sockets have to be short
    found.init(num_cpus=1, include_dashboard=False, log_to_driver=False, _temp_dir=folder)
    yield found
    found.shutdown()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.slow
def test_a_node_outlives_its_actor_and_its_cluster_and_is_adopted(fleet_of, ray, tmp_path):
    with fleet_of() as fleet, contextlib.ExitStack() as ending:
        given: dict[str, Any] = {"secret": SECRET, "folder": str(tmp_path / "ray"), "options": ["--at-once", "2"]}

        (first,) = ray_nodes(fleet.gateway.url, **given)
        ending.callback(_kill, first.pid)
        fleet.until_ready(first.name)
        with fleet.gateway.client() as client:
            made = client.post("/v1/sandboxes", json={}).json()["sandbox_id"]
            client.post(f"/v1/sandboxes/{made}/run", json={"code": "x = 41"})
        (node_id,) = [each["NodeID"] for each in ray.nodes()]
        actor = ray.get_actor(f"node-{node_id}", namespace=NAMESPACE)
        ray.kill(actor, no_restart=True)
        until(lambda: not _is_actor(ray, f"node-{node_id}"))
        (second,) = ray_nodes(fleet.gateway.url, **given)
        raylet, _, _ = stat(ray.get(ray.remote(num_cpus=0)(lambda: os.getpid()).remote()))
        with open(f"/proc/{raylet}/comm") as file:
            assert file.read() == "raylet\n"
        ray.shutdown()
        until(lambda: stat(raylet) is None)
        time.sleep(2 * fleet.lease_s)  # long enough for its lease to end, had it ended
        with fleet.gateway.client() as client:
            told = client.post(f"/v1/sandboxes/{made}/run", json={"code": "print(x + 1)"}).json()
            client.post(f"/v1/fleet/nodes/{first.name}/drain", json={"leave": True, "within_s": 0})
        until(lambda: stat(first.pid) is None)

        assert (first.was_there, second.was_there, second.pid) == (False, True, first.pid)
        assert told["stdout"] == "42\n"
        until(lambda: fleet.node(first.name)["state"] == "left" if fleet.node(first.name) else True)


@pytest.mark.slow
def test_a_machine_whose_node_does_not_start_is_named_with_its_last_words(ray, tmp_path):
    given: dict[str, Any] = {"secret": SECRET, "folder": str(tmp_path / "ray"), "options": ["--no-such-option"]}

    with pytest.raises(GroundboxError) as told:
        ray_nodes("http://127.0.0.1:9", **given)

    assert re.match(r"\S+ \(\S+\): the node \S+ ended before it answered: .*--no-such-option", str(told.value))


def _kill(pid):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _is_actor(ray, name):
    try:
        ray.get_actor(name, namespace=NAMESPACE)
    except ValueError:
        return False
    return True
