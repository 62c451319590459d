"""Conformance: processes that live beside runs. Streams, terminals, signals, and their end with the sandbox."""

from __future__ import annotations

import os
import secrets
import signal

from groundbox.sandbox.process import Exit
from groundbox.testing.base import Conformance, until


class ProcessConformance(Conformance):
    """What `start` promises."""

    def test_a_process_is_given_input_and_tells_its_end(self) -> None:
        process = self.sandbox().start("cat; echo done >&2; exit 3")

        process.write("given\n")
        process.close_stdin()

        assert sorted(process.output()) == [("stderr", b"done\n"), ("stdout", b"given\n")]
        assert process.wait() == Exit(3, None)

    def test_a_process_lives_on_beside_runs(self) -> None:
        box = self.sandbox()
        process = box.start("read x; echo heard $x; exec sleep 600")

        execution = box.run("print('script')", mode="script")
        process.write("you\n")

        assert execution.stdout == "script\n"
        assert process.read() == ("stdout", b"heard you\n")
        process.signal(signal.SIGTERM)
        assert process.wait(timeout_s=10) == Exit(None, signal.SIGTERM)

    def test_a_process_in_a_terminal_has_its_size_and_keys(self) -> None:
        # Not before `ready`: bash takes no notice of a key that comes while it waits for a program which heeds none.
        terminal = self.sandbox().start("stty size; echo ready; exec cat", pty=(30, 100))

        shown = b""
        while not shown.endswith(b"ready\r\n") and (chunk := terminal.read()) is not None:
            shown += chunk.data
        terminal.write(b"\x03")

        assert shown == b"30 100\r\nready\r\n"
        assert terminal.wait(timeout_s=10) == Exit(None, signal.SIGINT)

    def test_a_process_and_what_it_has_started_end_with_the_sandbox(self) -> None:
        box, mark = self.sandbox(), f"groundbox-{secrets.token_hex(8)}"
        process = box.start(f"(setsid bash -c 'exec -a {mark} sleep 600' &); exec -a {mark} sleep 600")
        assert until(lambda: _alive(mark) == 2)

        box.close()

        assert until(lambda: _alive(mark) == 0)
        assert process.wait() == Exit(None, signal.SIGKILL)


def _alive(mark: str) -> int:
    """How many processes of this host are called so."""
    count = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                count += file.read().startswith(mark.encode())
        except OSError:
            continue
    return count
