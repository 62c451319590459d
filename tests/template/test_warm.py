"""What a template takes over while it imports libraries."""

import asyncio
import contextlib
import os
import shutil
from pathlib import Path

import pytest

from groundbox import AsyncSandbox, Outcome, Sandbox
from groundbox.sandbox import engine
from groundbox.testing.base import until

TOLD = """
import matplotlib, os, subprocess, sys
print(matplotlib.get_cachedir())
print(matplotlib.rcParams["lines.linewidth"])
told = "import matplotlib; print(matplotlib.get_cachedir())"
ran = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True)
print(ran.stdout or ran.stderr)
print(os.environ["HOME"])
"""


@pytest.fixture
def planted():
    """Settings of matplotlib, and an empty folder for its caches, as another user of this machine may leave in /tmp."""
    made = []
    for name, text in (("/tmp/caches", None), ("/tmp/.config/matplotlib/matplotlibrc", "lines.linewidth: 7\n")):
        path = Path(name)
        if path.exists():
            continue
        first = next(each for each in (*reversed(path.parents), path) if not each.exists())
        try:
            (path if text is None else path.parent).mkdir(parents=True, exist_ok=True)
            if text is not None:
                path.write_text(text)
        except OSError as error:
            pytest.skip(f"nothing can be put at {path}: {error.strerror}")
        made.append(first)
    yield
    for each in made:
        with contextlib.suppress(OSError):
            shutil.rmtree(each) if each.is_dir() else each.unlink()


def test_what_others_left_in_tmp_is_not_taken_for_the_environments(planted):
    """Without a mount namespace /tmp is everybody's, and the template is root where its caller is."""
    with Sandbox(backend="bare", profile="science", hash_seed=4) as box:
        execution = box.run(TOLD)

    assert execution.outcome is Outcome.OK
    caches, width, of_child, home = execution.stdout.split()
    assert (Path(caches).parents[2].name.partition("-")[0], width) == ("groundbox", "1.5"), caches
    assert of_child == f"{home}/matplotlib"


def test_a_template_whose_host_goes_while_it_is_told_something_ends_in_order():
    """Without a pid namespace nobody else ends what its workers have left."""

    async def scenario():
        own, ended = await engine.current(), []
        for seed in range(6, 10):
            async with AsyncSandbox(backend="bare", profile="bare", hash_seed=seed) as box:
                await box.run("1")
                template = box._loan.template
            del own._templates[template.recipe]
            own._close_pools(template.recipe)  # whose workers' ends it tells the host of, which is gone
            await template.retire()
            ended.append((template._process.returncode, template.log()))
        return ended

    assert asyncio.run(scenario()) == [(0, "")] * 4


def test_a_templates_own_folder_goes_with_it():
    """One for each: whoever asks for ever other hash seeds would fill the disk with copies of caches."""

    async def scenario():
        own = await engine.current()
        async with AsyncSandbox(backend="bare", profile="bare", hash_seed=5) as box:
            await box.run("1")
            template = box._loan.template
        before = os.listdir(template.folder)
        del own._templates[template.recipe]
        own._close_pools(template.recipe)
        own._retiring[template] = asyncio.create_task(own._retire(template))
        gone = await asyncio.to_thread(until, lambda: not os.path.exists(template.folder))
        return before, gone, len(own._ranges)

    assert asyncio.run(scenario()) == (["caches"], True, 0)
