"""Conformance of a runtime: what has to hold for every language, whatever its programs look like.

    class TestMine(RuntimeConformance):
        language = "mine"
        programs = Programs(prints="say 'hello'", fails="give up", ...)

What a language has no program for is None; the tests that need it are skipped with that reason.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

from groundbox import InvalidArgument, Limits, MiB, Outcome
from groundbox.execution import Execution
from groundbox.sandbox import languages
from groundbox.testing.base import Conformance, until


@dataclasses.dataclass(frozen=True, kw_only=True)
class Programs:
    """One program for each thing that is tested, in `default_mode` or the language's first unless it says otherwise.

    Attributes:
        prints: Writes `hello` and the end of a line, or has it as its value (`RuntimeConformance.said`).
        fails: Ends in an error on its line 2.
        spins: Uses processor time without end.
        heeds: Sleeps without end, and can be interrupted.
        ignores: Uses processor time without end, and heeds no interrupt.
        hoards: Takes memory without end.
        floods: Writes 100,000 times the letter `x` and the end of a line.
        writes: Makes the file `made.txt` with `hello` and the end of a line.
        reads: Writes what the file `given.txt` holds.
        leaves: Leaves a process running that is called `sleep 98761`.
        script: For the mode `script`: writes its first argument, then all its standard input.
        exits: For the mode `script`: ends with exit code 3.
        keeps, recalls: For the mode `cell`: set a variable to 42; the variable as the value.
    """

    prints: str | None = None
    fails: str | None = None
    spins: str | None = None
    heeds: str | None = None
    ignores: str | None = None
    hoards: str | None = None
    floods: str | None = None
    writes: str | None = None
    reads: str | None = None
    leaves: str | None = None
    script: str | None = None
    exits: str | None = None
    keeps: str | None = None
    recalls: str | None = None


class RuntimeConformance(Conformance):
    """The suite. Skipped as a whole where the language is not installed."""

    language: ClassVar[str]
    programs: ClassVar[Programs]
    default_mode: ClassVar[str | None] = None
    options: ClassVar[Mapping[str, Any]] = {}
    """What only this language knows, for each run."""

    @pytest.fixture(autouse=True)
    def _installed(self) -> None:
        if missing := languages.missing(self.language):
            pytest.skip(str(missing))

    def _source(self, name: str) -> str:
        source = getattr(self.programs, name)
        if source is None:
            pytest.skip(f"{self.language} has no program that {name}")
        return str(source)

    def _run(self, name: str, box: Any = None, **options: Any) -> Execution:
        source = self._source(name)
        options = {"mode": self.default_mode, **self.options, **options}
        execution: Execution = (box or self.sandbox()).run(source, language=self.language, **options)
        return execution

    def said(self, execution: Execution) -> str:
        """What a program of `prints`, `reads` or `recalls` has said; a language that prints nothing says a value."""
        return execution.stdout or execution.text or ""

    def test_what_it_prints_is_output(self) -> None:
        execution = self._run("prints")

        assert (execution.error, execution.outcome) == (None, Outcome.OK)
        assert (self.said(execution), execution.exit_code, execution.language) == ("hello\n", 0, self.language)
        assert dict(execution.artifacts) == {}

    def test_an_error_names_its_line(self) -> None:
        execution = self._run("fails")

        assert execution.outcome is Outcome.ERROR
        assert execution.error is not None
        assert execution.error.line == 2

    def test_a_program_at_its_wall_time_is_stopped_and_the_sandbox_goes_on(self) -> None:
        box = self.sandbox()
        box.run("kept = 1")

        execution = self._run("spins", box, wall_s=1.0)

        assert execution.outcome is Outcome.TIMEOUT
        assert execution.error is not None
        assert execution.error.message == "the program was stopped at wall_s=1.0"
        assert (box.run("kept").text, self.said(self._run("prints", box))) == ("1", "hello\n")

    def test_a_program_at_its_processor_time_is_stopped(self) -> None:
        execution = self._run("spins", self.sandbox(limits=Limits(wall_s=60, cpu_s=1.5)))

        assert execution.outcome is Outcome.TIMEOUT
        assert execution.error is not None
        assert execution.error.message == "the program was stopped at cpu_s=1.5"

    def test_a_program_that_ignores_the_interrupt_is_ended(self) -> None:
        box = self.sandbox()

        execution = self._run("ignores", box, wall_s=1.0)

        assert execution.outcome is Outcome.TIMEOUT
        assert execution.usage.wall_s < 30

    def test_an_interrupt_cancels(self) -> None:
        box = self.sandbox()
        box.run("1")
        self._source("heeds")
        import threading

        timer = threading.Timer(1.5, box.interrupt)
        timer.start()

        execution = self._run("heeds", box)

        timer.cancel()
        assert execution.outcome is Outcome.CANCELLED

    def test_memory_over_the_limit_is_said_and_the_sandbox_goes_on(self) -> None:
        box = self.sandbox(limits=Limits(memory_bytes=256 * MiB, wall_s=60, cpu_s=60))
        box.run("kept = 1")

        execution = self._run("hoards", box)

        assert execution.outcome is Outcome.MEMORY
        assert execution.usage.peak_memory_bytes is not None
        assert execution.usage.peak_memory_bytes <= 257 * MiB
        assert (box.run("kept").text, self.said(self._run("prints", box))) == ("1", "hello\n")

    def test_output_is_cut_in_the_middle_and_the_rest_is_counted(self) -> None:
        execution = self._run("floods", self.sandbox(limits=Limits(output_bytes=1024)))

        assert execution.dropped_bytes["stdout"] == 100_001 - 1024
        assert execution.stdout.startswith("x" * 100)

    def test_a_file_it_makes_is_an_artifact_and_there_for_python(self) -> None:
        box = self.sandbox()

        execution = self._run("writes", box)

        assert execution.artifacts["made.txt"].read() == b"hello\n"
        assert list(execution.artifacts) == ["made.txt"]
        assert box.run("open('made.txt').read()").text == repr("hello\n")

    def test_a_file_that_python_made_is_there(self) -> None:
        box = self.sandbox()
        box.run("_ = open('given.txt', 'w').write('made by python')")

        assert self.said(self._run("reads", box)).strip() == "made by python"

    def test_a_process_that_it_leaves_ends_with_the_sandbox(self) -> None:
        box = self.sandbox()
        self._run("leaves", box)

        box.close()

        assert until(lambda: running(b"sleep\x0098761\x00") == 0)

    def test_a_script_has_arguments_and_standard_input(self) -> None:
        execution = self._run("script", mode="script", argv=["é x"], stdin="typed in")

        assert (execution.stdout, execution.error) == ("é x\ntyped in", None)

    def test_a_script_has_an_exit_code(self) -> None:
        execution = self._run("exits", mode="script")

        assert (execution.outcome, execution.exit_code) == (Outcome.ERROR, 3)

    def test_a_cell_keeps_its_variables_for_the_next_one(self) -> None:
        box = self.sandbox()
        self._run("keeps", box)

        assert self.said(self._run("recalls", box)).strip() == "42"

    def test_a_mode_that_it_has_not_is_refused(self) -> None:
        with pytest.raises(InvalidArgument, match="^mode: .*'call'"):
            self._run("prints", mode="call")

    def test_its_self_test_holds(self) -> None:
        test = languages.find(self.language).SELF_TEST

        execution = self.sandbox().run(test.source, language=self.language, mode=test.mode)

        assert (execution.outcome, execution.stdout) == (Outcome.OK, test.prints)


def running(command_line: bytes) -> int:
    """Processes of this host with this command line, arguments ended by NUL."""
    import os

    count = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                count += file.read() == command_line
        except OSError:
            continue
    return count
