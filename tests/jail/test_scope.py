"""Scopes of systemd, asked for by a stand-in of busctl; scripts/other_systems.py asks a real one."""

import os

from groundbox.jail import scope


def put_busctl(folder, script):
    path = folder / "busctl"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_a_user_without_a_manager_is_offered_none(tmp_path, monkeypatch):
    put_busctl(tmp_path, "exit 0")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))

    assert not scope.is_offered()

    (tmp_path / "systemd").mkdir()
    (tmp_path / "systemd" / "private").touch()
    assert scope.is_offered()


def test_the_reason_of_a_refusal_is_returned(tmp_path, monkeypatch):
    put_busctl(tmp_path, f"echo \"$@\" > {tmp_path}/asked; echo 'Call failed: Access denied' >&2; exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    assert scope.enter() == "systemd gives no scope: Call failed: Access denied"

    asked = (tmp_path / "asked").read_text()
    assert "StartTransientUnit" in asked
    assert f"PIDs au 1 {os.getpid()} Delegate b true" in asked


def test_a_scope_that_never_comes_is_a_reason(tmp_path, monkeypatch):
    put_busctl(tmp_path, "exit 0")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(scope, "_ANSWER_S", 0.5)

    assert "systemd has not moved this process into groundbox-" in scope.enter()
