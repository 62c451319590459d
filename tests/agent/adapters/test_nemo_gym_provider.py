"""NeMo Gym's provider, through NeMo Gym's own registry and sandboxes."""

import asyncio
import time
import tomllib
from pathlib import Path

import pytest

pytest.importorskip("nemo_gym.sandbox", reason="NeMo Gym is not installed here: make clients")

from nemo_gym.sandbox import AsyncSandbox, Sandbox
from nemo_gym.sandbox.providers.base import SandboxCreateError, SandboxHandle, SandboxSpec, SandboxStatus
from nemo_gym.sandbox.providers.registry import create_provider, list_providers, register_provider

from groundbox import InvalidArgument
from groundbox.agent.adapters.nemo_gym_provider import GroundboxProvider

CONFIG = {"groundbox": {}}

if "groundbox" not in list_providers():  # the checkout may not be installed
    register_provider("groundbox", GroundboxProvider)


def test_nemo_gym_finds_it_by_the_entry_point():
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())

    entry = project["project"]["entry-points"]["nemo_gym.sandbox_providers"]

    assert entry == {"groundbox": f"{GroundboxProvider.__module__}:{GroundboxProvider.__name__}"}
    assert isinstance(create_provider(CONFIG), GroundboxProvider)


def test_commands_files_and_environment_variables_of_a_sandbox(tmp_path):
    spec = SandboxSpec(workdir="repo", env={"A": "1"}, files={"repo/in.txt": "é\n"})
    (tmp_path / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (tmp_path / "run.sh").chmod(0o755)

    async def work():
        async with AsyncSandbox(CONFIG, spec) as box:
            await box.start()
            read = await box.exec("pwd; cat in.txt; echo $A$B >&2", env={"B": "2"})
            await box.upload(tmp_path / "run.sh", "repo/bin/run.sh")
            ran = await box.exec("bin/run.sh > out.txt; exit 3")
            await box.download("repo/out.txt", tmp_path / "got" / "out.txt")
            running = await box.status()
        return read, ran, running, await box.status()

    read, ran, running, ended = asyncio.run(work())

    assert read.stdout.endswith("/repo\né\n")
    assert (read.stderr, read.return_code, read.error_type) == ("12\n", 0, None)
    assert (ran.return_code, ran.error_type) == (3, None)
    assert (tmp_path / "got" / "out.txt").read_text() == "ran\n"
    assert (running, ended) == (SandboxStatus.RUNNING, SandboxStatus.STOPPED)


def test_the_blocking_face_works_too():
    with Sandbox(CONFIG, SandboxSpec()) as box:
        box.start()
        result = box.exec("echo out")

    assert (result.stdout, result.return_code) == ("out\n", 0)


def test_a_timeout_and_a_sandbox_that_is_gone_are_no_exit_codes_of_the_program():
    async def work():
        async with AsyncSandbox({"groundbox": {"limits": {"memory_bytes": 1 << 28}}}, SandboxSpec()) as box:
            await box.start()
            slow = await box.exec("echo begun; sleep 60", timeout_s=1)
            after = await box.exec("echo on")
            await box._provider.close(SandboxHandle("other", "groundbox", box._handle.raw))
            return slow, after, await box.exec("echo on")

    slow, after, gone = asyncio.run(work())

    assert (slow.stdout, slow.return_code, slow.error_type) == ("begun\n", 125, "timeout")
    assert (after.stdout, after.error_type) == ("on\n", None)
    assert (gone.stdout, gone.return_code, gone.error_type) == (None, 125, "sandbox")


def test_who_is_cancelled_stops_the_command_and_keeps_the_sandbox():
    async def work():
        async with AsyncSandbox(CONFIG, SandboxSpec()) as box:
            await box.start()
            await box.exec("true")
            begun = time.monotonic()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(box.exec("sleep 60"), 1)
            return time.monotonic() - begun, await box.exec("echo on")

    lasted_s, after = asyncio.run(work())

    assert lasted_s < 8
    assert after.stdout == "on\n"


def test_a_sandbox_ends_with_its_time():
    async def work():
        async with AsyncSandbox(CONFIG, SandboxSpec(ttl_s=2)) as box:
            await box.start()
            before = await box.status()
            await asyncio.sleep(4)
            return before, await box.status()

    assert asyncio.run(work()) == (SandboxStatus.RUNNING, SandboxStatus.STOPPED)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"image": "python:3.12"}, "there are no images here"),
        ({"ports": [80]}, "ports: there is no such thing"),
        ({"entrypoint": ["sleep"]}, "entrypoint: there is no such thing"),
        ({"resources": {"gpu": 1}}, "resources.gpu: there is no such thing"),
        ({"provider_options": {"volumes": []}}, "there is no volumes"),
        ({"workdir": "/repo"}, "no sandbox could be made"),
    ],
)
def test_what_there_is_not_is_refused_and_not_left_out(spec, words):
    with pytest.raises(SandboxCreateError, match=words):
        asyncio.run(GroundboxProvider().create(SandboxSpec(**spec)))


def test_images_are_done_without_where_that_is_asked_for():
    async def work():
        async with AsyncSandbox({"groundbox": {"ignore_images": True}}, SandboxSpec(image="python:3.12")) as box:
            await box.start()
            return await box.exec("echo out")

    assert asyncio.run(work()).stdout == "out\n"


def test_limits_and_users_that_there_are_not_are_refused():
    async def work():
        async with AsyncSandbox(CONFIG, SandboxSpec()) as box:
            await box.start()
            await box.exec("true", user="root")

    with pytest.raises(InvalidArgument, match="limits: has none of these: memory"):
        GroundboxProvider(limits={"memory": 1})
    with pytest.raises(ValueError, match="there is one user"):
        asyncio.run(work())
