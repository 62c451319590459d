"""What a template takes over while it imports libraries."""

import contextlib
import os
import shutil
from pathlib import Path

import pytest

from groundbox import Outcome, Sandbox

TOLD = """
import matplotlib, os, subprocess, sys
print(matplotlib.get_cachedir())
print(matplotlib.rcParams["lines.linewidth"])
told = "import matplotlib; print(matplotlib.get_cachedir())"
ran = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True)
print(ran.stdout.strip() or ran.stderr, os.environ["HOME"])
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
    caches, width, (of_child, home) = [each.split() if " " in each else each for each in execution.stdout.splitlines()]
    assert caches.startswith("/tmp/groundbox-")
    assert caches.endswith(f"/template-{caches.split('/template-')[1].split('/')[0]}/caches/matplotlib")
    assert width == "1.5"
    assert (of_child, home) == (f"{home}/matplotlib", home)
    assert home.startswith("/tmp/groundbox-")
    assert os.path.isdir("/tmp/caches")
