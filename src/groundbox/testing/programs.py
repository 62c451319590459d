"""Conformance: what running a program means. State, values, scripts, signals, streams, displays."""

from __future__ import annotations

import asyncio
import base64
import json
import signal
import threading

import pytest

from groundbox import InvalidArgument, Outcome, Sandbox, SandboxClosed, SandboxLost
from groundbox.testing.base import Conformance


class ProgramConformance(Conformance):
    """Cells and scripts."""

    def test_a_cell_keeps_its_variables_for_the_next_one(self) -> None:
        box = self.sandbox()

        box.run("x = 20")
        execution = box.run("x += 1\nx * 2")

        assert (execution.outcome, execution.exit_code, execution.exit_signal) == (Outcome.OK, 0, None)
        assert execution.text == "42"
        assert execution.state == "kept"

    def test_a_cell_without_an_expression_has_no_value(self) -> None:
        assert self.sandbox().run("y = 1").value is None

    def test_an_exception_is_a_value_and_leaves_the_sandbox_usable(self) -> None:
        box = self.sandbox()

        failed = box.run("before = 1\nraise KeyError('Revenu')")

        assert (failed.outcome, failed.exit_code, failed.exit_signal) == (Outcome.ERROR, 1, None)
        assert failed.error is not None
        assert (failed.error.type, failed.error.message, failed.error.line) == ("KeyError", "'Revenu'", 2)
        assert box.run("before").text == "1"

    def test_a_syntax_error_is_an_error_of_the_program(self) -> None:
        execution = self.sandbox().run("def f(:\n  pass")

        assert execution.outcome is Outcome.ERROR
        assert execution.error is not None
        assert execution.error.type == "SyntaxError"

    def test_the_streams_are_kept_apart(self) -> None:
        execution = self.sandbox().run("import sys; print('out'); print('err', file=sys.stderr)")

        assert (execution.stdout, execution.stderr) == ("out\n", "err\n")

    def test_output_of_children_is_output_of_the_program(self) -> None:
        execution = self.sandbox().run("import subprocess; r = subprocess.run(['echo', 'from a child'])")

        assert execution.stdout == "from a child\n"

    def test_a_script_has_main_arguments_and_standard_input(self) -> None:
        source = "import sys\nprint(__name__, sys.argv, sys.stdin.read())"

        execution = self.sandbox().run(source, mode="script", argv=["-n", "é"], stdin="typed in", filename="tool.py")

        assert execution.stdout == "__main__ ['tool.py', '-n', 'é'] typed in\n"
        assert execution.outcome is Outcome.OK

    def test_a_script_without_input_reads_end_of_file(self) -> None:
        execution = self.sandbox().run("import sys; print(repr(sys.stdin.read()))", mode="script")

        assert execution.stdout == "''\n"

    def test_binary_input_arrives_as_it_is(self) -> None:
        data = bytes(range(256)) * 5000
        source = "import sys, hashlib; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())"

        execution = self.sandbox().run(source, mode="script", stdin=data)

        import hashlib

        assert execution.stdout == hashlib.sha256(data).hexdigest() + "\n"

    @pytest.mark.parametrize("code", [0, 1, 3, 255])
    def test_a_script_ends_with_its_own_exit_code(self, code: int) -> None:
        execution = self.sandbox().run(f"import sys; sys.exit({code})", mode="script")

        assert (execution.exit_code, execution.exit_signal) == (code, None)
        assert execution.outcome is (Outcome.OK if code == 0 else Outcome.ERROR)

    def test_a_script_that_raises_ends_with_1_and_tells_why(self) -> None:
        execution = self.sandbox().run("a = 1\nprint(a / 0)\n", mode="script")

        assert (execution.outcome, execution.exit_code) == (Outcome.ERROR, 1)
        assert execution.error is not None
        assert (execution.error.type, execution.error.line) == ("ZeroDivisionError", 2)
        assert execution.stderr.rstrip().endswith("ZeroDivisionError: division by zero")

    def test_a_script_leaves_no_variable_behind(self) -> None:
        box = self.sandbox()

        box.run("leftover = 1", mode="script")

        assert box.run("'leftover' in globals()").text == "False"

    @pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL, signal.SIGABRT, signal.SIGTERM])
    def test_a_script_that_a_signal_ends_is_told_so(self, number: signal.Signals) -> None:
        box = self.sandbox()

        execution = box.run(f"import os; os.kill(os.getpid(), {int(number)})", mode="script")

        assert execution.outcome is Outcome.SIGNAL
        assert (execution.exit_code, execution.exit_signal) == (None, int(number))
        assert box.run("1 + 1").text == "2"

    def test_a_cell_that_crashes_loses_the_sandbox_and_restart_mends_it(self) -> None:
        box = self.sandbox()

        crashed = box.run("import ctypes; ctypes.string_at(0)")

        assert crashed.outcome is not Outcome.OK
        assert crashed.state == "ended"
        with pytest.raises(SandboxLost):
            box.run("1")
        box.restart()
        assert box.run("1 + 1").text == "2"

    def test_a_cell_that_leaves_the_process_is_an_error_and_keeps_its_exit_code(self) -> None:
        execution = self.sandbox().run("import os; os._exit(7)")

        assert (execution.outcome, execution.exit_code, execution.state) == (Outcome.ERROR, 7, "ended")

    def test_output_is_streamed_while_the_program_runs(self) -> None:
        box = self.sandbox()
        events = box.stream("import time\nprint('first', flush=True)\ntime.sleep(600)")

        first = next(events)

        assert (first.kind, first.text) == ("stdout", "first\n")
        events.close()

    def test_a_stream_ends_with_the_execution(self) -> None:
        events = list(self.sandbox().stream("import sys\nprint('a')\nprint('b', file=sys.stderr)\n3"))

        assert {(e.kind, e.text) for e in events[:-1]} == {("stdout", "a\n"), ("stderr", "b\n")}
        assert events[-1].kind == "end"
        assert events[-1].execution is not None
        assert events[-1].execution.text == "3"

    def test_an_interrupt_stops_the_cell_and_keeps_its_variables(self) -> None:
        box = self.sandbox()
        box.run("kept = 'still here'")
        events = box.stream("print('running', flush=True)\nwhile True: pass")
        next(events)

        box.interrupt()
        last = list(events)[-1].execution

        assert last is not None
        assert (last.outcome, last.state) == (Outcome.CANCELLED, "kept")
        assert box.run("kept").text == "'still here'"

    def test_an_interrupt_between_runs_does_nothing(self) -> None:
        box = self.sandbox()
        box.run("x = 1")

        box.interrupt()

        assert box.run("x").text == "1"

    def test_leaving_a_stream_early_ends_the_program(self) -> None:
        box = self.sandbox()
        events = box.stream("print('running', flush=True)\nwhile True: pass")
        next(events)

        events.close()

        with pytest.raises(SandboxLost):
            box.run("1")

    def test_cancelling_the_task_ends_the_program(self) -> None:
        async def cancelled() -> str:
            async with self.async_sandbox() as box:
                await box.run("1")
                task = asyncio.ensure_future(box.run("while True: pass"))
                await asyncio.sleep(0.2)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                with pytest.raises(SandboxLost) as lost:
                    await box.run("1")
                return lost.value.why

        assert asyncio.run(cancelled()) == "its run was cancelled"

    def test_a_closed_sandbox_says_so(self) -> None:
        box = self.sandbox()
        box.run("1")

        box.close()

        with pytest.raises(SandboxClosed):
            box.run("1")

    def test_runs_of_one_sandbox_follow_one_another(self) -> None:
        box = self.sandbox()
        box.run("log = []")
        source = "log.append('in')\nimport time; time.sleep(0.05)\nlog.append('out')"
        threads = [threading.Thread(target=box.run, args=(source,)) for _ in range(4)]

        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert box.run("log == ['in', 'out'] * 4").text == "True"

    def test_many_sandboxes_run_at_once(self) -> None:
        """Each waits for a file that is written only when all are running, so they cannot have run in turn."""
        source = "print('here', flush=True)\nimport time\nwhile True: time.sleep(0.01)"

        async def together() -> list[str]:
            boxes = [self.async_sandbox() for _ in range(8)]
            streams = [box.stream(source) for box in boxes]
            said = [(await anext(stream)).text for stream in streams]
            for stream in streams:
                await stream.aclose()
            for box in boxes:
                await box.close()
            return said

        assert asyncio.run(together()) == ["here\n"] * 8

    def test_an_unknown_mode_is_refused_before_anything_runs(self) -> None:
        box = self.sandbox()

        with pytest.raises(InvalidArgument) as refused:
            box.run("1", mode="notebook")  # type: ignore[arg-type]  # what is refused here

        assert str(refused.value) == "mode: 'notebook' is none of 'cell', 'script', 'call' and 'calls'"

    def test_the_result_has_the_documented_keys(self) -> None:
        result = self.sandbox().run("print('é\\x00')\n1 / 0").to_dict()

        documented = (
            "execution_id language outcome exit_code exit_signal stdout stderr dropped_bytes value error "
            "displays artifacts warnings usage isolation trace"
        )
        assert set(documented.split()) <= set(result)
        assert json.loads(json.dumps(result)) == result
        assert set(result["error"]) == {"type", "message", "line", "column", "traceback", "locals", "hints"}
        assert set(result["usage"]) == {"wall_s", "cpu_s", "peak_memory_bytes", "start_s", "warm"}
        assert result["isolation"]["backend"] == self.sandbox_options.get("backend", "namespaces")


class DisplayConformance(Conformance):
    """Rich values."""

    def science(self) -> Sandbox:
        """A sandbox with the libraries that draw and print tables."""
        return self.sandbox(profile="science")

    def test_a_plot_is_shown_as_a_picture(self) -> None:
        execution = self.science().run(
            "import matplotlib.pyplot as plt\nplt.plot([1, 2, 4])\nplt.title('t')\nplt.show()"
        )

        assert execution.outcome is Outcome.OK
        assert [d.png[:8] if d.png else None for d in execution.displays] == [b"\x89PNG\r\n\x1a\n"]

    def test_a_data_frame_is_a_value_as_text_and_html(self) -> None:
        execution = self.science().run("import pandas as pd\npd.DataFrame({'a': [1, 2]})")

        assert execution.value is not None
        assert execution.value["text/plain"].split() == ["a", "0", "1", "1", "2"]
        assert "<table" in execution.value["text/html"]

    def test_display_shows_before_the_value(self) -> None:
        execution = self.science().run("display(1)\ndisplay('two')\n3")

        assert [d.text for d in execution.displays] == ["1", "'two'"]
        assert execution.text == "3"

    def test_an_object_shows_itself_as_it_likes(self) -> None:
        source = """
            class Card:
                def _repr_html_(self): return '<b>card</b>'
                def _repr_json_(self): return {'card': 1}
                def __repr__(self): return 'a card'
            display(Card())
        """

        execution = self.science().run("import textwrap\nexec(textwrap.dedent('''" + source + "'''))")

        assert execution.error is None
        assert execution.displays[0].html == "<b>card</b>"
        assert execution.displays[0].text == "a card"

    def test_png_bytes_survive_the_way(self) -> None:
        pixel = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(range(256))).decode()
        source = f"import base64\nclass P:\n    def _repr_png_(self): return base64.b64decode('{pixel}')\ndisplay(P())"

        execution = self.science().run(source)

        assert execution.displays[0].png == base64.b64decode(pixel)

    def test_displays_come_in_the_stream(self) -> None:
        kinds = [event.kind for event in self.science().stream("display('shown')")]

        assert kinds == ["display", "end"]

    def test_displays_that_are_replaced_and_cleared_come_in_the_stream(self) -> None:
        source = (
            "display('a', display_id='x').update('b')\nprint('c')\nget_ipython().display_pub.clear_output(wait=True)"
        )
        source += "\nprint('d')"

        told = [
            (each.kind, each.text, each.display_id, each.updates, each.waits) for each in self.science().stream(source)
        ]

        assert told == [
            ("display", "", "x", False, False),
            ("display", "", "x", True, False),
            ("stdout", "c\n", None, False, False),
            ("clear", "", None, False, True),
            ("stdout", "d\n", None, False, False),
            ("end", "", None, False, False),
        ]

    def test_top_level_await_and_magics_work(self) -> None:
        box = self.science()

        assert box.run("import asyncio\nawait asyncio.sleep(0, 'awaited')").text == "'awaited'"
        assert box.run("!echo from the shell").stdout == "from the shell\n"
