"""Conformance: files in, files out, and what a run made."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from groundbox import InvalidArgument
from groundbox.errors import GuestFileError
from groundbox.testing.base import Conformance


class FilesConformance(Conformance):
    """The workdir."""

    def test_a_file_put_in_is_there_for_the_program(self) -> None:
        box = self.sandbox()

        box.files.write("data/sales.csv", "a,b\n1,2\n")

        assert box.run("open('data/sales.csv').read()").text == "'a,b\\n1,2\\n'"

    def test_a_file_put_in_is_no_artifact_until_it_changes(self) -> None:
        box = self.sandbox()
        box.files.write("in.txt", "one")

        unchanged = box.run("open('in.txt').read()")
        changed = box.run("open('in.txt', 'a').write('two')")

        assert list(unchanged.artifacts) == []
        assert changed.artifacts["in.txt"].read() == b"onetwo"

    def test_artifacts_are_what_the_run_made_or_changed(self) -> None:
        box = self.sandbox()
        box.run("open('old.txt', 'w').write('old'); open('gone.txt', 'w').write('gone')")

        execution = box.run(
            "import os\nos.makedirs('out/deep'); open('out/deep/new.json', 'w').write('{}')\n"
            "open('old.txt', 'w').write('new'); os.remove('gone.txt')"
        )

        assert list(execution.artifacts) == ["old.txt", "out/deep/new.json"]
        made = execution.artifacts["out/deep/new.json"]
        assert (made.path, made.size_bytes, made.media_type, made.sha256, made.read()) == (
            "out/deep/new.json",
            2,
            "application/json",
            hashlib.sha256(b"{}").hexdigest(),
            b"{}",
        )

    def test_an_artifact_is_read_as_it_was_after_its_run(self) -> None:
        box = self.sandbox()
        first = box.run("open('a', 'w').write('first')")

        box.run("open('a', 'w').write('second')")

        assert first.artifacts["a"].read() == b"first"

    def test_a_script_makes_artifacts_too(self) -> None:
        execution = self.sandbox().run("open('made.txt', 'w').write('x')", mode="script")

        assert list(execution.artifacts) == ["made.txt"]

    def test_files_are_listed_and_read(self) -> None:
        box = self.sandbox()
        box.run("import os; os.mkdir('d'); open('d/f', 'wb').write(bytes(range(256)))")

        assert box.files.list() == {"d/f": 256}
        assert box.files.read("d/f") == bytes(range(256))

    def test_a_file_that_is_not_there_is_told(self) -> None:
        with pytest.raises(GuestFileError) as missing:
            self.sandbox().files.read("nowhere")

        assert str(missing.value) == "nowhere: No such file or directory"

    def test_files_and_folders_can_be_removed(self) -> None:
        box = self.sandbox()
        box.files.write("a/b/c", "x")
        box.files.write("d", "x")

        box.files.remove("a")
        box.files.remove("d")

        assert box.files.list() == {}

    def test_a_host_folder_is_copied_in(self, tmp_path: Path) -> None:
        (tmp_path / "given" / "sub").mkdir(parents=True)
        (tmp_path / "given" / "sub" / "f.txt").write_text("deep")
        (tmp_path / "given" / "run.sh").write_text("#!/bin/sh\necho ran")
        (tmp_path / "given" / "run.sh").chmod(0o755)
        box = self.sandbox()

        box.files.put(tmp_path / "given")

        assert box.files.list() == {"given/run.sh": 18, "given/sub/f.txt": 4}
        assert box.run("import subprocess; r = subprocess.run('given/run.sh')").stdout == "ran\n"

    @pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", "", ".", "a\0b"])
    def test_a_path_that_leaves_the_workdir_is_refused(self, path: str) -> None:
        box = self.sandbox()

        with pytest.raises(InvalidArgument):
            box.files.write(path, "x")
        with pytest.raises(InvalidArgument):
            box.files.read(path)

    def test_a_file_larger_than_the_disk_is_refused(self) -> None:
        from groundbox import Limits, MiB

        box = self.sandbox(limits=Limits(disk_bytes=MiB))

        with pytest.raises(GuestFileError) as refused:
            box.files.write("big", bytes(MiB + 1))

        assert str(refused.value) == f"big: {MiB + 1} bytes do not fit into disk_bytes={MiB}"

    def test_a_restart_keeps_the_files_and_forgets_the_variables(self) -> None:
        box = self.sandbox()
        box.run("x = 1; open('kept.txt', 'w').write('kept')")

        box.restart()

        assert box.run("'x' in globals()").text == "False"
        assert box.run("open('kept.txt').read()").text == "'kept'"

    def test_what_is_no_regular_file_is_left_out_and_never_followed(self) -> None:
        box = self.sandbox()
        source = (
            "import os, socket\nopen('real', 'w').write('x'); os.symlink('real', 'link'); os.symlink('/', 'root')\n"
            "os.mkfifo('fifo'); open('one', 'w').write('x'); os.link('one', 'two')"
        )

        execution = box.run(source)

        assert execution.error is None
        assert list(execution.artifacts) == ["real"]
        for path in ("link", "root/etc/passwd", "fifo", "one"):
            with pytest.raises(GuestFileError):
                box.files.read(path)

    def test_the_artifacts_of_a_last_run_outlive_the_sandbox(self) -> None:
        with self.sandbox() as box:
            execution = box.run("open('a.bin', 'wb').write(b'x' * 1000)")

        assert execution.artifacts["a.bin"].read() == b"x" * 1000
