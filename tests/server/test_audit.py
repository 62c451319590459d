"""The audit log: whole lines, without secrets, moved when it is large, and lost lines that are counted."""

import errno
import json
import os
import time

import pytest

pytest.importorskip("starlette", reason="the extra `server` is not installed here")

from groundbox.errors import GroundboxError
from groundbox.server.audit import AuditLog, redacted
from groundbox.server.refusals import Refused


@pytest.fixture
def path(tmp_path):
    return tmp_path / "audit.jsonl"


def lines(path):
    return [json.loads(each) for each in path.read_text().splitlines() if each]


def test_an_event_is_one_line_of_json_for_its_owner_alone(path):
    log = AuditLog(path)
    log.write("run", {"key": "k", "outcome": "ok", "warnings": ["a"]})
    log.close()

    [told] = lines(path)
    assert {name: value for name, value in told.items() if name != "time"} == {
        "event": "run",
        "key": "k",
        "outcome": "ok",
        "warnings": ["a"],
    }
    assert path.stat().st_mode & 0o777 == 0o600


def test_words_of_a_guest_are_visible_cut_and_on_one_line(path):
    log = AuditLog(path)
    log.write("run", {"name\n": 'x\n{"event": "forged"}\x1b[31m\u202e\ud800', "long": "y" * 1000, "odd": {1, 2}})

    [told] = lines(path)
    assert told["name\\n"] == 'x\\n{"event": "forged"}\\u202e\\ud800'
    assert len(told["long"]) < 350
    assert told["odd"] == "set"


@pytest.mark.parametrize(
    "secret",
    [
        "gb_0123456789abcdef",
        "e2b_0123456789abcdef",
        "sk-0123456789abcdef",
        "ghp_0123456789abcdef",
        "AKIA0123456789ABCDEF",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc",
    ],
)
def test_secrets_of_well_known_forms_are_left_out(path, secret):
    log = AuditLog(path)
    log.write("run", {"label": f"a {secret} b", secret: ["x", {"deep": secret}]})

    assert secret not in path.read_text()
    assert redacted(f"a {secret} b") == "a [redacted] b"


def test_a_log_that_is_large_moves_aside_and_none_of_its_lines_is_lost(path):
    log = AuditLog(path, most_bytes=1000)
    for number in range(50):
        log.write("run", {"number": number})
    log.close()

    files = sorted(path.parent.iterdir(), key=lambda each: each.stat().st_mtime_ns)
    assert len(files) > 3
    assert all(each.stat().st_size <= 1000 for each in files)
    assert sorted(told["number"] for each in files for told in lines(each)) == list(range(50))


def test_files_over_their_age_go_and_others_of_a_like_name_stay(tmp_path):
    path = tmp_path / "audit[1].jsonl"
    old = tmp_path / "audit[1]-20200101T000000.jsonl"
    kept = [
        tmp_path / name for name in ("audit[1]-notes.jsonl", "audit1-20200101T000000.jsonl", "audit[1]-20200101T000000")
    ]
    for each in (old, *kept):
        each.write_text("")
        os.utime(each, (0, time.time() - 100 * 86400))
    log = AuditLog(path, most_bytes=10, kept_days=90)

    log.write("run", {})
    log.write("run", {})

    assert not old.exists()
    assert all(each.exists() for each in kept)


def test_a_full_disk_costs_lines_that_are_counted_and_told(path, monkeypatch, caplog):
    log = AuditLog(path)
    log.write("run", {"number": 0})

    def full(descriptor, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as during:
        during.setattr(os, "write", full)
        for number in range(1, 4):
            log.write("run", {"number": number})
    log.write("run", {"number": 4})

    assert [told["number"] for told in lines(path)] == [0, 4]
    assert [record.message for record in caplog.records] == [
        "the audit log cannot be written: No space left on device; lines are lost until it can",
        "the audit log is written again; 3 lines were lost",
    ]


def test_a_required_log_lets_nothing_begin_while_it_cannot_be_written(path, monkeypatch):
    log, other = AuditLog(path, required=True), AuditLog(path.with_name("other.jsonl"))

    def full(descriptor, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as during:
        during.setattr(os, "write", full)
        for begin in (lambda: log.begin("a", {}), lambda: log.intend("fork", {})):
            with pytest.raises(Refused, match="nothing was done") as refused:
                begin()
            assert (refused.value.status, refused.value.code) == (503, "audit_unavailable")
        other.begin("a", {})
        other.intend("fork", {})
    log.begin("b", {})
    log.intend("fork", {})

    assert [(told["event"], told.get("run"), told.get("of")) for told in lines(path)] == [
        ("begin", "b", None),
        ("intent", None, "fork"),
    ]
    assert (log.lost_total, other.lost_total) == (2, 1)


def test_half_a_line_that_a_full_disk_took_spoils_no_other(path, monkeypatch):
    log = AuditLog(path)
    write = os.write
    with monkeypatch.context() as during:
        during.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:10]))
        log.write("run", {"number": 0})
    log.write("run", {"number": 1})

    told = path.read_text().splitlines()
    assert (len(told), json.loads(told[1])["number"]) == (2, 1)


def test_half_a_line_of_a_server_that_was_killed_spoils_no_other(path):
    path.write_text('{"time": "2026')

    AuditLog(path).write("run", {"number": 1})

    assert json.loads(path.read_text().splitlines()[1])["number"] == 1


def test_a_link_is_not_followed_and_what_cannot_be_written_is_told(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")

    for path in (tmp_path / "link", tmp_path / "no-such" / "log", tmp_path):
        with pytest.raises(GroundboxError, match="cannot be written"):
            AuditLog(path)
    assert not (tmp_path / "elsewhere").exists()


def test_descriptors_do_not_grow_while_the_disk_is_full(path, monkeypatch):
    log = AuditLog(path)
    before = len(os.listdir("/proc/self/fd"))

    def full(descriptor, data):
        raise OSError(errno.ENOSPC, "")

    with monkeypatch.context() as during:
        during.setattr(os, "write", full)
        for _ in range(20):
            log.write("run", {})

    assert len(os.listdir("/proc/self/fd")) <= before


def test_a_run_that_never_ended_is_told_as_lost_by_the_next_server(path):
    log = AuditLog(path)
    log.begin("a", {"key": "k"})
    log.begin("b", {"key": "k"})
    log.end("b", {"key": "k", "outcome": "ok"})
    path.write_bytes(path.read_bytes() + b'{"time": "2026')  # the server was killed in the middle of a line

    AuditLog(path)
    AuditLog(path)  # told once, and not at each start

    whole = [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]
    assert [(told["event"], told["run"], told.get("outcome")) for told in whole] == [
        ("begin", "a", None),
        ("begin", "b", None),
        ("run", "b", "ok"),
        ("run", "a", "lost"),
    ]


def test_a_run_that_goes_on_while_the_log_moves_is_known_in_the_next_file(path):
    log = AuditLog(path, most_bytes=600)
    log.begin("a", {"key": "k"})
    for number in range(20):
        log.write("run", {"number": number})

    AuditLog(path, most_bytes=600)

    assert [told["outcome"] for told in lines(path) if told.get("run") == "a" and "outcome" in told] == ["lost"]
