"""Harbor's environment, in trials that Harbor itself carries out."""

import asyncio
import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("harbor.environments.base", reason="Harbor is not installed here: make clients")

from harbor.environments.factory import EnvironmentFactory
from harbor.models.task.config import EnvironmentConfig, NetworkMode, NetworkPolicy
from harbor.models.trial.paths import TrialPaths

from groundbox.agent.adapters.harbor_environment import GroundboxEnvironment

PATH = f"{GroundboxEnvironment.__module__}:{GroundboxEnvironment.__name__}"
OFFLINE = NetworkPolicy(network_mode=NetworkMode.NO_NETWORK)


@pytest.fixture
def make(tmp_path):
    """Makes an environment of a task whose folder may have files."""

    def made(files=(), network=OFFLINE, config=None, **options):
        folder = tmp_path / "environment"
        folder.mkdir()
        for name, text in dict(files).items():
            (folder / name).write_text(text)
        return GroundboxEnvironment(
            environment_dir=folder,
            environment_name="task",
            session_id="task__1",
            trial_paths=TrialPaths(trial_dir=tmp_path / "trial"),
            task_env_config=EnvironmentConfig(**(config or {})),
            logger=logging.getLogger("test"),
            network_policy=network,
            **options,
        )

    return made


def run(environment, work):
    """What comes of `work` in an environment that is started before it and stopped after it."""

    async def all_of_it():
        await environment.start(force_build=False)
        try:
            return await work()
        finally:
            await environment.stop(delete=True)

    return asyncio.run(all_of_it())


def test_harbor_imports_it_by_its_path():
    assert EnvironmentFactory.get_environment_class(import_path=PATH) is GroundboxEnvironment


@pytest.mark.parametrize(("said", "reward"), [("Hello, world!", 1.0), ("Goodbye", 0.0)])
def test_a_trial_of_harbor_is_scored(tmp_path, said, reward):
    task = tmp_path / "hello"
    files = {
        "task.toml": 'version = "1.0"\n[environment]\n[agent]\n[verifier]\n',
        "instruction.md": "Write `Hello, world!` to hello.txt.\n",
        "environment/Dockerfile": "FROM python:3.12-slim\nWORKDIR /app\n",
        "environment/name.txt": "world\n",
        "solution/solve.sh": f'#!/bin/bash\necho "{said}" > /app/hello.txt\ncat /app/name.txt\n',
        "tests/test.sh": "#!/bin/bash\npython3 /tests/check.py\n",
        "tests/check.py": "from pathlib import Path\n"
        "told = Path('/app/hello.txt').read_text()\n"
        "Path('/logs/verifier/reward.txt').write_text(str(int(told == 'Hello, world!\\n')))\n",
    }
    for name, text in files.items():
        (task / name).parent.mkdir(parents=True, exist_ok=True)
        (task / name).write_text(text)
    source = str(Path(__file__).parents[3] / "src")
    options = ["--environment-kwarg", "ignore_images=true", "--environment-kwarg", "without_internet=true"]
    command = ["trials", "start", "-p", task, "--trials-dir", tmp_path / "trials", "--agent", "oracle", "--env", PATH]

    ended = subprocess.run(
        [Path(sys.executable).parent / "harbor", *command, *options],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": source},
    )

    (result,) = (tmp_path / "trials").glob("*/result.json")
    told = json.loads(result.read_text())
    assert (told["verifier_result"], told["exception_info"]) == ({"rewards": {"reward": reward}}, None), ended.stdout
    assert (result.parent / "agent" / "oracle.txt").read_text() == "world\n"


def test_commands_folders_and_files_go_in_and_out(make, tmp_path):
    environment = make(config={"workdir": "/app", "env": {"A": "1"}})
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    (source / "run.sh").write_text("#!/bin/bash\necho $A > /logs/agent/out; cat /tests/sub/raw > raw\n")
    (source / "run.sh").chmod(0o755)
    (source / "sub" / "raw").write_bytes(b"\0/tests\xff")

    async def work():
        await environment.upload_dir(source, "/tests")
        ran = await environment.exec("/tests/run.sh; ln -s /etc /logs/agent/etc; exit 3", user="root")
        await environment.download_dir("/logs", tmp_path / "logs")
        await environment.download_file("/app/raw", tmp_path / "raw")
        return ran, await environment.is_dir("/tests/sub"), await environment.is_file("/tests/none")

    ran, is_dir, is_file = run(environment, work)

    got = {str(path.relative_to(tmp_path / "logs")) for path in (tmp_path / "logs").rglob("*")}
    assert (ran.return_code, is_dir, is_file) == (3, True, False)
    assert got == {"agent", "agent/out", "verifier", "artifacts"}
    assert (tmp_path / "logs" / "agent" / "out").read_text() == "1\n"
    assert (tmp_path / "raw").read_bytes() == b"\0/tests\xff"


def test_what_runs_too_long_is_an_error_and_no_exit_code(make):
    environment = make()

    async def work():
        with pytest.raises(RuntimeError, match="timed out after 1 seconds"):
            await environment.exec("sleep 60", timeout_sec=1)
        return await environment.exec("echo on")

    assert run(environment, work).stdout == "on\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"files": {"Dockerfile": "FROM x\n"}}, "there are no images here, and the task has Dockerfile"),
        ({"config": {"docker_image": "python:3.12"}}, "there are no images here, and the task has python:3.12"),
        ({"network": NetworkPolicy()}, "there is no open internet here"),
        (
            {"network": NetworkPolicy(network_mode=NetworkMode.ALLOWLIST, allowed_hosts=["*.example.org"])},
            "wildcard hostnames",
        ),
        ({"ignore_image": True}, "Unknown option 'ignore_image'"),
    ],
)
def test_what_there_is_not_is_refused_before_a_trial_starts(make, arguments, words):
    with pytest.raises(ValueError, match=words):
        make(**arguments)


def test_other_users_are_refused(make):
    environment = make()

    async def work():
        with pytest.raises(ValueError, match="there is one user"):
            await environment.exec("true", user="agent")

    run(environment, work)


@pytest.mark.parametrize(
    ("text", "replaced"),
    [
        ("cat /tests/a '/logs' \"/app\" >/solution/x", "cat {r}/tests/a '{r}/logs' \"{w}\" >{r}/solution/x"),
        ("/testsuite /logs.txt /apples a/tests ./tests https://h/tests $D/tests ${D}/tests", None),
    ],
)
def test_only_whole_absolute_paths_are_replaced(make, text, replaced):
    environment = make(config={"workdir": "/app"})

    async def work():
        return environment._replaced(text), environment._workdir

    told, workdir = run(environment, work)

    assert told == (text if replaced is None else replaced.format(r="/tmp/root", w=workdir))
