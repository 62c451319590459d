"""Conformance: what a program may use, and what is said when it uses more."""

from __future__ import annotations

import os
import time

import pytest

from groundbox import GiB, Limits, MiB, Outcome
from groundbox.testing.base import Conformance, until

_SPIN = "while True: pass"


class BoundsConformance(Conformance):
    """Each limit at the limit, above it, and against cheating."""

    def test_a_cell_at_its_wall_time_is_stopped_and_keeps_its_variables(self) -> None:
        box = self.sandbox(limits=Limits(wall_s=0.3))
        box.run("kept = 1")

        execution = box.run(_SPIN)

        assert execution.outcome is Outcome.TIMEOUT
        assert execution.error is not None
        assert execution.error.message == "the program was stopped at wall_s=0.3"
        assert box.run("kept").text == "1"

    def test_sleeping_counts_as_wall_time_and_not_as_processor_time(self) -> None:
        box = self.sandbox(limits=Limits(wall_s=0.3, cpu_s=0.2))

        execution = box.run("import time; time.sleep(600)")

        assert execution.error is not None
        assert execution.error.message == "the program was stopped at wall_s=0.3"

    def test_one_run_may_have_less_time_than_the_others(self) -> None:
        box = self.sandbox(limits=Limits(wall_s=60))

        assert box.run(_SPIN, wall_s=0.2).outcome is Outcome.TIMEOUT
        assert box.run("1").outcome is Outcome.OK

    def test_a_program_that_ignores_the_interrupt_is_killed(self) -> None:
        box = self.sandbox(limits=Limits(wall_s=0.3))
        source = "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})\nwhile True: pass"

        execution = box.run(source)

        assert (execution.outcome, execution.state) == (Outcome.TIMEOUT, "ended")

    def test_output_before_the_deadline_is_kept(self) -> None:
        box = self.sandbox(limits=Limits(wall_s=0.5))

        execution = box.run("print('got this far', flush=True)\n" + _SPIN)

        assert (execution.outcome, execution.stdout) == (Outcome.TIMEOUT, "got this far\n")

    def test_a_child_that_holds_the_output_does_not_hold_up_the_result(self) -> None:
        """A reader that waited for the end of file would wait for the child."""
        box = self.sandbox()
        source = "import subprocess; subprocess.Popen(['sleep', '600']); print('done')"

        begun = time.monotonic()
        execution = box.run(source, mode="script")

        assert (execution.outcome, execution.stdout) == (Outcome.OK, "done\n")
        assert time.monotonic() - begun < 60

    def test_processor_time_of_all_processes_counts(self) -> None:
        box = self.sandbox(limits=Limits(wall_s=60, cpu_s=0.6))
        source = "import os\nfor _ in range(2): os.fork()\n" + _SPIN

        execution = box.run(source)

        assert execution.outcome is Outcome.TIMEOUT
        assert execution.error is not None
        assert execution.error.message == "the program was stopped at cpu_s=0.6"
        assert execution.usage.wall_s < 30

    def test_the_processor_time_used_is_told(self) -> None:
        execution = self.sandbox().run(
            "import time\nend = time.process_time() + 0.2\nwhile time.process_time() < end: pass"
        )

        assert execution.usage.cpu_s is not None
        assert 0.2 <= execution.usage.cpu_s < 10 * 0.2

    def test_one_large_allocation_is_a_memory_error_at_its_line(self) -> None:
        box = self.sandbox(limits=Limits(memory_bytes=128 * MiB))

        execution = box.run("a = 1\nb = bytearray(1 << 30)")

        assert execution.outcome is Outcome.MEMORY
        assert execution.error is not None
        assert (execution.error.type, execution.error.line) == ("MemoryError", 2)
        assert box.run("a").text == "1"

    def test_memory_within_the_limit_can_be_used(self) -> None:
        box = self.sandbox(limits=Limits(memory_bytes=256 * MiB))

        assert box.run("b = b'x' * (128 << 20); len(b)").outcome is Outcome.OK

    def test_memory_of_many_processes_is_added_up(self) -> None:
        box = self.sandbox(limits=Limits(memory_bytes=128 * MiB, wall_s=60))
        source = """
import os, time
for _ in range(8):
    if os.fork() == 0:
        block = bytearray(b'x') * (40 << 20)
        time.sleep(600)
for _ in range(5):
    os.wait()  # five of eight have to end for the others to fit
"""

        execution = box.run(source, mode="script", wall_s=20)

        assert execution.usage.peak_memory_bytes is not None
        assert execution.usage.peak_memory_bytes <= 129 * MiB

    def test_the_most_memory_used_is_told(self) -> None:
        execution = self.sandbox().run("b = b'x' * (64 << 20)")

        assert execution.usage.peak_memory_bytes is not None
        assert 64 * MiB <= execution.usage.peak_memory_bytes < GiB

    def test_the_disk_is_full_at_its_limit_and_not_before(self) -> None:
        box = self.sandbox(limits=Limits(disk_bytes=8 * MiB))

        within = box.run("open('a', 'wb').write(b'x' * (7 << 20))")
        above = box.run("open('b', 'wb').write(b'x' * (2 << 20))")

        assert within.outcome is Outcome.OK
        assert above.outcome is Outcome.ERROR
        assert above.error is not None
        assert above.error.type == "OSError"
        assert "No space left" in above.error.message

    def test_one_file_cannot_be_larger_than_the_disk(self) -> None:
        box = self.sandbox(limits=Limits(disk_bytes=4 * MiB))

        execution = box.run("open('a', 'wb').write(b'x' * (8 << 20))", mode="script")

        assert execution.outcome is Outcome.ERROR
        assert box.files.list().get("a", 0) <= 4 * MiB

    def test_temporary_files_and_shared_memory_count_as_disk(self) -> None:
        box = self.sandbox(limits=Limits(disk_bytes=4 * MiB))
        source = "for path in ('/tmp/a', '/dev/shm/a', 'a'):\n    open(path, 'wb').write(b'x' * (2 << 20))"

        execution = box.run(source)

        assert execution.outcome is Outcome.ERROR
        assert execution.error is not None
        assert "No space left" in execution.error.message

    def test_the_number_of_files_is_bounded(self) -> None:
        box = self.sandbox(limits=Limits(file_count=100))
        source = (
            "made = 0\ntry:\n    for i in range(1000):\n"
            "        open(str(i), 'w').close(); made += 1\nexcept OSError: pass\nmade"
        )

        assert box.run(source).text == "100"

    def test_the_number_of_processes_is_bounded_and_the_sandbox_lives(self) -> None:
        box = self.sandbox(limits=Limits(process_count=16))
        source = """
import os, signal, time
children = []
try:
    while True:
        child = os.fork()
        if child == 0:
            time.sleep(600)
        children.append(child)
except OSError: pass
for child in children: os.kill(child, signal.SIGKILL); os.waitpid(child, 0)
len(children)
"""

        execution = box.run(source)

        assert execution.error is None
        assert execution.text is not None
        assert 8 <= int(execution.text) < 16

    def test_threads_count_as_processes(self) -> None:
        box = self.sandbox(limits=Limits(process_count=16))
        source = """
import threading
stop, made = threading.Event(), 0
try:
    while True:
        threading.Thread(target=stop.wait, daemon=True).start(); made += 1
except RuntimeError: pass
stop.set()
made
"""

        text = box.run(source).text

        assert text is not None
        assert 8 <= int(text) < 16

    @pytest.mark.parametrize("size", [1024, 1025, 100_000])
    def test_output_is_cut_in_the_middle_and_the_rest_is_counted(self, size: int) -> None:
        box = self.sandbox(limits=Limits(output_bytes=1024))

        execution = box.run(f"import os; _ = os.write(1, b'h' + b'x' * ({size} - 2) + b't')", mode="script")

        dropped = size - 1024
        assert execution.dropped_bytes["stdout"] == dropped
        assert execution.stdout[0] == "h"
        assert execution.stdout[-1] == "t"
        said = f"\n… {dropped} bytes left out …\n" if dropped else ""
        assert execution.stdout.count("x") == 1022
        assert len(execution.stdout) == 1024 + len(said)

    def test_output_that_was_left_out_can_be_paged_and_searched(self) -> None:
        box = self.sandbox(limits=Limits(output_bytes=1024))

        execution = box.run("for i in range(20000): print('line', i)")

        whole = "".join(f"line {i}\n" for i in range(20000)).encode()
        kept = execution.outputs["stdout"]
        assert kept.read(0, 100) == whole[:100]
        assert kept.read(50_000, 1000) == whole[50_000:51_000]
        assert kept.read(len(whole)) == b""
        assert [tuple(match) for match in kept.search("^line 1999[89]$")] == [
            (19999, "line 19998"),
            (20000, "line 19999"),
        ]

    def test_output_that_is_no_text_is_replaced_and_kept_as_bytes(self) -> None:
        execution = self.sandbox().run(r"import os; _ = os.write(1, b'a\xff\xfe\x1b[2Jb')")

        assert execution.stdout == "a��\x1b[2Jb"
        assert execution.outputs["stdout"].read() == b"a\xff\xfe\x1b[2Jb"

    def test_closing_ends_every_process(self) -> None:
        """The end of every process closes the write end of the pipe that the host holds the other end of."""
        box = self.sandbox()
        box.run("import subprocess\nfor _ in range(3): subprocess.Popen(['sleep', '98765'], start_new_session=True)")
        assert until(lambda: _sleepers() == 3)  # exec closes descriptors before it names the program

        box.close()

        assert until(lambda: _sleepers() == 0)


def _sleepers() -> int:
    count = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                count += file.read() == b"sleep\x0098765\x00"
        except OSError:
            continue
    return count
