"""Folders on disk of workers that have no tmpfs, and their removal."""

import os
import time

import pytest

from groundbox.jail import cgroup
from groundbox.sandbox import private
from groundbox.sandbox.workdir import Workdir
from groundbox.testing.base import until


@pytest.fixture
def slow_rm(tmp_path, monkeypatch):
    """An rm(1) that does not begin before it is told to, as one that has much to do does not end."""
    folder, begin = tmp_path / "bin", tmp_path / "begin"
    folder.mkdir()
    (folder / "rm").write_text(f'#!/bin/sh\nwhile ! [ -e {begin} ]; do sleep 0.02; done\nexec /bin/rm "$@"\n')
    (folder / "rm").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return begin


def test_nobody_waits_for_a_workdir_to_be_removed(tmp_path, slow_rm):
    work = tmp_path / "work"
    work.mkdir()
    workdir = Workdir(os.open(work, os.O_RDONLY | os.O_DIRECTORY), str(work))

    workdir.close()
    there_after_closing = work.exists()
    slow_rm.touch()

    assert there_after_closing
    assert until(lambda: not work.exists())


@pytest.fixture
def made(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return private.make()


def test_folders_of_processes_that_are_gone_are_removed(made):
    gone = made.replace(f"groundbox-{os.getpid()}-", "groundbox-999999999-")
    os.mkdir(gone)

    private.remove_abandoned()

    assert (os.path.exists(gone), os.path.exists(made)) == (False, True)


def test_folders_that_another_process_removes_meanwhile_are_nobodys_concern(made, monkeypatch):
    gone = made.replace(f"groundbox-{os.getpid()}-", "groundbox-999999999-")
    os.mkdir(gone)

    def start_time(pid):
        if pid == 999999999:
            os.rmdir(gone)
            return 0
        return real(pid)

    real = cgroup.start_time
    monkeypatch.setattr(private, "start_time", start_time)

    private.remove_abandoned()

    assert not os.path.exists(gone)


def test_folders_of_another_containers_processes_are_left_alone(made):
    inode = os.stat("/proc/self/ns/pid").st_ino
    others = made.replace(f"groundbox-{os.getpid()}-", "groundbox-999999999-").replace(f"-{inode}-", f"-{inode + 1}-")
    os.mkdir(others)

    private.remove_abandoned()

    assert os.path.exists(others)


def test_folders_that_are_kept_go_after_a_week_and_no_others(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    week_s = 7 * 24 * 3600
    for name, age_s in {"kept-old": week_s + 60, "kept-new": week_s - 60, "other-old": week_s + 60}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
        os.utime(tmp_path / name, times=(time.time() - age_s,) * 2)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "kept-link").symlink_to("elsewhere")

    made = private.make_kept("kept-")

    assert os.path.isdir(made)
    assert {path.name for path in tmp_path.iterdir()} == {
        "kept-new",
        "other-old",
        "elsewhere",
        "kept-link",
        os.path.basename(made),
    }
