"""What a run leaves running has a budget, also when files are put in meanwhile."""

import time

import pytest

import groundbox as gb


def _files_until_it_ends(box):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        time.sleep(0.5)
        box.files.list()


def test_a_leftover_is_ended_at_cpu_s_also_after_an_order_on_files():
    with gb.Sandbox(limits=gb.Limits(cpu_s=1)) as box:
        box.run("import os\nif os.fork() == 0:\n    while True: pass")
        box.files.write("later.txt", "put in while it runs")
        with pytest.raises(gb.SandboxLost) as caught:
            _files_until_it_ends(box)

    assert "what a run left running, or what was started, was at its limit cpu_s" in str(caught.value)
