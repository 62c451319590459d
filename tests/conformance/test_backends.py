"""Every backend against the public suite. What one lacks is named with its reason."""

import functools
import os
from typing import Any

import pytest

from groundbox import InvalidArgument, Sandbox, SandboxUnavailable
from groundbox.jail import kernel, probe
from groundbox.sandbox import environments
from groundbox.sandbox.environments.build import LOCKS
from groundbox.testing.conformance import BackendConformance

_FOLDER = "the workdir is a folder on the host's disk: only the size of a single file is bounded"
_NO_COUNT = "the workdir is a folder on the host's disk: nothing counts its files"
_ELSEWHERE = "its processes are none of this kernel's; tests/sandbox/test_gvisor.py asks that one's host"
_NEARLY = "the kernel inside looks at the count before it counts, and now and then lets one or two more be"
_BARE = "this backend is no wall, and says so"


class TestNamespaces(BackendConformance):
    sandbox_options = {"backend": "namespaces"}


@functools.cache
def environment_open_to_others():
    """The default environment, or, where its interpreter lies in root's closed home, one like it from the system's."""
    used = environments.get().readable_roots()
    folders = [folder for root in used for folder in (root, *root.parents)]
    if os.geteuid() != 0 or all(folder.stat().st_mode & 0o001 for folder in folders):
        return "default"
    made_from: dict[str, Any] = {"python": "/usr/bin/python3", "lock": LOCKS / "default.txt"}
    try:
        return environments.create("open-to-others", **made_from).name
    except InvalidArgument:  # an older lock's
        return environments.update("open-to-others", **made_from).name


class TestLandlock(BackendConformance):
    @pytest.fixture(autouse=True)
    def _within_reach(self):
        """Without a mount namespace a guest with a user id of its own has to enter the environment's real folders."""
        try:
            with Sandbox(profile="bare", **self.sandbox_options) as box:
                box.run("1")
        except SandboxUnavailable as unavailable:
            if any(reason.startswith("environment:") for reason in unavailable.missing):
                pytest.skip(str(unavailable))
            raise

    @property
    def sandbox_options(self):  # type: ignore[override]  # made when it is first asked for
        return {"backend": "landlock", "environment": environment_open_to_others()}

    lacking = {
        "test_the_disk_is_full_at_its_limit_and_not_before": _FOLDER,
        "test_temporary_files_and_shared_memory_count_as_disk": _FOLDER,
        "test_the_number_of_files_is_bounded": _NO_COUNT,
    }


@pytest.mark.skipif(not probe.gvisor().works, reason=f"gvisor: {probe.gvisor().detail}")
class TestGvisor(BackendConformance):
    sandbox_options = {"backend": "gvisor"}
    lacking = {
        "test_a_process_in_a_terminal_has_its_size_and_keys": "no terminal of the host's goes into gVisor",
        "test_closing_ends_every_process": _ELSEWHERE,
        "test_a_process_and_what_it_has_started_end_with_the_sandbox": _ELSEWHERE,
        "test_the_number_of_processes_is_bounded_and_the_sandbox_lives": _NEARLY,
        "test_threads_count_as_processes": _NEARLY,
        "test_memory_of_many_processes_is_added_up": "memory is added up ten times a second, and all is ended then",
        "test_displays_that_are_replaced_and_cleared_come_in_the_stream": "printed text may come later",
    }


class TestBare(BackendConformance):
    sandbox_options = {"backend": "bare"}
    lacking = {
        "test_the_disk_is_full_at_its_limit_and_not_before": _FOLDER,
        "test_temporary_files_and_shared_memory_count_as_disk": _FOLDER,
        "test_the_number_of_files_is_bounded": _NO_COUNT,
        "test_files_of_one_are_not_there_for_the_other": _BARE,
        "test_processes_of_one_are_not_seen_by_the_other": _BARE,
        "test_the_network_is_off": _BARE,
    }


class _Copied(BackendConformance):
    """Sandboxes that are made of a live one's state."""

    def made_of(self, box):
        raise NotImplementedError

    def sandbox(self, **options):
        if "network" in options:
            pytest.skip("a sandbox with a network cannot be copied so far")
        return self.made_of(super().sandbox(**{"branching": True, **options}))


@pytest.mark.skipif(kernel.MACHINE != "x86_64", reason="live sandboxes are copied on x86_64 only")
class TestForked(_Copied):
    def made_of(self, box):
        (fork,) = box.fork(1)
        box.close()
        return self._opened.enter_context(fork)


@pytest.mark.skipif(kernel.MACHINE != "x86_64", reason="live sandboxes are copied on x86_64 only")
class TestRestored(_Copied):
    def made_of(self, box):
        state = box.checkpoint()
        box.run("open('gone', 'w').write('x'); gone = 1")
        box.restore(state)
        return box
