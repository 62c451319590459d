"""Shared memory of another process, by which a copy would not be one."""

import contextlib
import fcntl
import mmap
import os

import pytest

from groundbox.template import branches


@contextlib.contextmanager
def _mapped(tmp_path):
    """Shared mappings of this process: with no file, with one that it may not write to, with one of a hard name."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(mmap.mmap(-1, 4096))
        for name in ("read only", f"{'long' * 50}\nname", "gone"):
            path = tmp_path / name
            path.write_bytes(b"x" * 4096)
            with path.open("rb") as file:
                stack.enter_context(mmap.mmap(file.fileno(), 4096, mmap.MAP_SHARED, mmap.PROT_READ))
        os.unlink(tmp_path / "gone")
        yield


def _told(found):
    return [each._replace(name=each.name.replace("\n", "\\012")) for each in found]


def test_what_is_asked_for_one_by_one_is_what_the_list_tells(tmp_path):
    with _mapped(tmp_path):
        listed = [each for each in branches._mappings(os.getpid()) if each.shared]

        assert _told(branches._shared_mappings(os.getpid())) == listed
        assert len(listed) >= 4


@pytest.mark.parametrize("refusal", [OSError(25, "no such request"), OSError(36, "a path that is too long")])
def test_where_the_kernel_does_not_tell_the_list_is_read(tmp_path, monkeypatch, refusal):
    def refuse(*given):
        raise refusal

    monkeypatch.setattr(fcntl, "ioctl", refuse)

    with _mapped(tmp_path):
        assert len(branches._shared_mappings(os.getpid())) >= 4
