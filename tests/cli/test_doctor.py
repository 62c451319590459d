"""`groundbox doctor`: what it says of this host, and that its self-test notices a missing layer."""

import asyncio
import json
import os
import pwd
import re

import pytest

from groundbox.jail import cgroup
from groundbox.sandbox.selftest import PROBES, selftest


def test_every_attempt_fails_and_every_layer_is_named(command, nothing_left):
    ran = command("doctor", "--json")

    facts = [json.loads(line) for line in ran.stdout.splitlines()]
    attempts = [each for each in facts if each["kind"] == "attempt"]
    assert [each for each in attempts if each["result"] != "held"] == []
    assert len(attempts) == len(PROBES) >= 20
    assert [each["layer"] for each in facts if each["kind"] == "layer"] == [
        "platform",
        "namespaces",
        "landlock",
        "seccomp",
        "cgroup",
        "uid",
        "gvisor",
    ]
    assert [each["works"] for each in facts if each["kind"] == "environment"] == [True]
    assert facts[-2] == {
        "kind": "backend",
        "backend": "namespaces",
        "works": True,
        "detail": f"{len(PROBES)} attempts, 0 got through",
        "breaches": 0,
    }
    assert (facts[-1]["kind"], facts[-1]["works"], facts[-1]["backend"]) == ("verdict", True, "namespaces")
    assert (ran.code, ran.stderr) == (0, "")
    assert nothing_left(ran.pid) is True


def test_people_get_one_line_for_each(command):
    ran = command("doctor")

    lines = ran.stdout.splitlines()
    assert ran.code == 0
    assert re.fullmatch(r"ok       platform: Linux \S+ (x86_64|aarch64)", lines[0])
    assert any(re.match(r"ok       environment default: Python 3\.\d+\.\d+ from /", line) for line in lines)
    assert lines[-2] == f"ok       backend namespaces: {len(PROBES)} attempts, 0 got through"
    assert lines[-1].startswith("groundbox: ready, backend namespaces: programs run, and nothing got out")


def test_without_an_environment_it_says_how_to_build_one(command, monkeypatch, tmp_path):
    monkeypatch.setenv("GROUNDBOX_HOME", str(tmp_path / "nothing"))

    ran = command("doctor", "--json")

    facts = [json.loads(line) for line in ran.stdout.splitlines()]
    (environment,) = (each for each in facts if each["kind"] == "environment")
    assert (ran.code, environment["works"]) == (3, False)
    assert environment["mend"] == "groundbox environment create default"
    assert facts[-1] == {
        "kind": "verdict",
        "backend": "namespaces",
        "works": False,
        "detail": "missing: environment default",
        "mend": "Run `groundbox environment create default`.",
    }


@pytest.mark.parametrize(
    ("waive", "breached"),
    [
        (["seccomp"], {"the system call keyctl is refused", "the system call process_vm_readv is refused"}),
        (["cgroup", "rlimits"], {"the memory of all processes together is bounded"}),
        (["network_ns", "seccomp", "landlock"], {"the host's loopback cannot be reached"}),
    ],
    # Sorted, because every process of a test run has to name a test alike.
    ids=lambda names: ",".join(sorted(names)),
)
def test_a_layer_that_is_missing_shows(waive, breached):
    async def run():
        return {each.probe.name async for each in selftest("namespaces", waive=waive) if not each.held}

    found = asyncio.run(run())

    assert breached <= found


def test_only_root_can_delegate(command):
    if os.geteuid() == 0:
        pytest.skip("started as root, who may")
    user = pwd.getpwuid(os.geteuid()).pw_name

    ran = command("doctor", "--delegate", user)

    mend = f"run: sudo groundbox doctor --delegate {user}"
    assert (ran.code, ran.stdout) == (2, "")
    assert ran.complaint == f"Error: only root can hand control groups to a user; {mend}"


@pytest.mark.needs_root
def test_root_delegates_folders_that_the_user_owns(command):
    ran = command("doctor", "--delegate", "nobody")

    folders = ran.stdout.splitlines()
    try:
        assert ran.code == 0
        assert folders
        assert {os.stat(folder).st_uid for folder in folders} == {pwd.getpwnam("nobody").pw_uid}
        assert command("doctor", "--delegate", "nobody").stdout == ran.stdout
    finally:
        for folder in folders:
            cgroup._remove_tree(folder)


@pytest.mark.needs_root
def test_a_user_who_is_not_there_is_bad_usage(command):
    ran = command("doctor", "--delegate", "no-such-user")

    assert (ran.code, ran.stdout) == (2, "")
    assert ran.complaint == "Error: Invalid value for '--delegate': there is no user 'no-such-user' on this host"


def test_a_waived_layer_is_not_missed_and_what_it_held_off_is_no_breach(command):
    ran = command("doctor", "--waive", "seccomp", "--json")

    facts = [json.loads(line) for line in ran.stdout.splitlines()]
    results = {each["name"]: each["result"] for each in facts if each["kind"] == "attempt"}
    assert results["the system call keyctl is refused"] == "waived"
    assert "breach" not in results.values()
    assert (ran.code, facts[-1]["works"]) == (0, True)


def test_a_layer_that_is_not_one_is_bad_usage(command):
    ran = command("doctor", "--waive", "moat")

    assert (ran.code, ran.stdout) == (2, "")
    assert "Invalid value for '--waive': moat is not a layer that can be waived; choose among " in ran.complaint
