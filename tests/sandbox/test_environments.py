"""Environments: real builds with uv, of packages made here; those marked slow need an index."""

import base64
import csv
import hashlib
import io
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

from groundbox.errors import EnvironmentFailed, InvalidArgument
from groundbox.sandbox import environments
from groundbox.sandbox.environments import build, interpreter, uv

pytestmark = pytest.mark.slow

LOCKS = build.LOCKS


@pytest.fixture(autouse=True)
def _own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("GROUNDBOX_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GROUNDBOX_PYTHON", sys._base_executable)  # type: ignore[attr-defined]  # typeshed has it not
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path / "wheels"))
    (tmp_path / "wheels").mkdir()


@pytest.fixture
def locked(tmp_path):
    """Writes a wheel of one module into the folder uv looks in, and returns a lock with its hash."""

    def make(source="x = 1", *, name="tinything", version="1.0"):
        wheel = tmp_path / "wheels" / f"{name}-{version}-py3-none-any.whl"
        info = f"{name}-{version}.dist-info"
        files = {
            f"{name}.py": textwrap.dedent(source),
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
            f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: us\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }
        record = io.StringIO()
        rows = csv.writer(record, lineterminator="\n")
        for path, content in files.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(content.encode()).digest()).rstrip(b"=").decode()
            rows.writerow([path, f"sha256={digest}", len(content.encode())])
        rows.writerow([f"{info}/RECORD", "", ""])
        with zipfile.ZipFile(wheel, "w") as archive:
            for path, content in {**files, f"{info}/RECORD": record.getvalue()}.items():
                archive.writestr(path, content)
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        lock = tmp_path / f"{name}-{version}.txt"
        lock.write_text(f"{name}=={version} --hash=sha256:{digest}\n")
        return lock

    return make


def _python(environment, code):
    ran = subprocess.run([environment.python, "-I", "-c", code], capture_output=True, text=True, check=True)
    return ran.stdout.strip()


def _version_folders(name):
    return sorted(path.name for path in (environments.data_home() / "environments" / name / "versions").iterdir())


def test_an_environment_has_what_its_lock_says_and_nothing_else(locked):
    lock = locked("x = 'imported'")

    made = environments.create("tiny", lock=lock)

    assert made == environments.get("tiny")
    assert made.packages == {"tinything": "1.0"}
    assert made.import_names == {"tinything": "tinything"}
    assert made.lock_sha256 == hashlib.sha256(lock.read_bytes()).hexdigest()
    assert _python(made, "import tinything; print(tinything.x)") == "imported"
    assert _python(made, "import sys; print(*sys.version_info[:3])") == "{} {} {}".format(*made.python_version)


def test_an_empty_lock_makes_an_environment_without_packages(tmp_path):
    lock = tmp_path / "empty.txt"
    lock.write_text("# nothing\n")

    made = environments.create("empty", lock=lock)

    assert made.packages == {}
    assert environments.check("empty") == []


def test_bytecode_names_the_files_where_they_are(locked):
    made = environments.create("tiny", lock=locked())

    module = next(made.path.glob("lib/*/site-packages/tinything.py"))
    bytecode = next(module.parent.glob("__pycache__/tinything.*.pyc")).read_bytes()
    assert str(module).encode() in bytecode
    assert b".building" not in bytecode


def test_readable_roots_are_real_and_disjoint_and_hold_the_interpreter(locked):
    made = environments.create("tiny", lock=locked())

    roots = made.readable_roots()

    assert all(Path(os.path.realpath(root)) == root and root.is_dir() for root in roots)
    assert not any(a.is_relative_to(b) for a in roots for b in roots if a != b)
    for needed in (made.python, made.path, made.caches, made.base_prefix):
        assert any(Path(os.path.realpath(needed)).is_relative_to(root) for root in roots), needed


def test_everyone_can_read_an_environment_even_when_the_builder_keeps_things_private(locked):
    before = os.umask(0o077)
    try:
        made = environments.create("tiny", lock=locked())
    finally:
        os.umask(before)

    paths = [p for p in [made.path.parent, *made.path.parent.rglob("*")] if p.name != "environment.json"]
    private = [p for p in paths if not p.is_symlink() and p.stat().st_mode & 0o004 == 0]
    assert private == []


@pytest.mark.parametrize("name", ["", "Upper", "-x", "a/b", "..", "a.b", "x" * 65, "a\n", "ä"])
def test_names_that_could_be_paths_or_options_are_refused(name):
    with pytest.raises(InvalidArgument, match="is not a name"):
        environments.get(name)
    with pytest.raises(InvalidArgument, match="is not a name"):
        environments.create(name, requirements=["tinything"])
    with pytest.raises(InvalidArgument, match="is not a name"):
        environments.remove(name)


def test_a_missing_environment_says_how_it_is_made(locked):
    with pytest.raises(EnvironmentFailed) as nothing:
        environments.get()
    environments.create("tiny", lock=locked())
    with pytest.raises(EnvironmentFailed) as other:
        environments.get("other")

    assert str(nothing.value) == ("there is no environment 'default'. `groundbox environment create default` makes it.")
    assert str(other.value) == (
        "there is no environment 'other'; there are: tiny. "
        "`groundbox environment create other --requirement PACKAGE` makes it."
    )


def test_creating_again_from_the_same_builds_nothing(locked):
    lock = locked()
    first = environments.create("tiny", lock=lock)
    words = []

    again = environments.create("tiny", lock=lock, progress=words.append)

    assert again == first
    assert words == []


def test_creating_again_from_something_else_is_refused(locked):
    environments.create("tiny", lock=locked())

    with pytest.raises(InvalidArgument, match="is there already, made from something else"):
        environments.create("tiny", lock=locked(version="2.0"))


def test_a_package_without_a_hash_is_refused(tmp_path, locked):
    locked()
    lock = tmp_path / "unhashed.txt"
    lock.write_text("tinything==1.0\n")

    with pytest.raises(EnvironmentFailed, match="tinything==1.0"):
        environments.create("tiny", lock=lock)

    assert environments.all() == []


def test_a_package_with_another_hash_is_refused(tmp_path, locked):
    locked()
    lock = tmp_path / "other.txt"
    lock.write_text(f"tinything==1.0 --hash=sha256:{'0' * 64}\n")

    with pytest.raises(EnvironmentFailed, match="(?i)hash"):
        environments.create("tiny", lock=lock)


def test_requirements_become_a_hashed_lock_that_is_kept(locked):
    locked()
    locked(version="1.5")

    made = environments.create("tiny", requirements=["tinything<2"])

    assert made.packages == {"tinything": "1.5"}
    assert made.requirements == ("tinything<2",)
    lock = (made.path.parent / "lock.txt").read_text()
    assert re.fullmatch(r"tinything==1\.5 \\\n    --hash=sha256:[0-9a-f]{64}\n", lock)


def test_an_update_resolves_the_requirements_anew(locked):
    locked()
    environments.create("tiny", requirements=["tinything"])
    locked(version="2.0")

    updated = environments.update("tiny")

    assert updated.packages == {"tinything": "2.0"}
    assert updated.requirements == ("tinything",)


def test_an_environment_that_extends_another_has_its_versions_and_more(locked):
    environments.create("base", lock=locked())
    locked(version="2.0")
    locked(name="other")

    made = environments.create("more", base="base", requirements=["other"])

    assert made.packages == {"other": "1.0", "tinything": "1.0"}
    assert (made.base, made.requirements) == ("base", ("other",))
    assert environments.create("more", base="base", requirements=["other"]) == made
    with pytest.raises(InvalidArgument, match="made from something else"):
        environments.create("more", requirements=["other"])


def test_an_update_of_what_extends_another_follows_it(locked):
    environments.create("base", requirements=[_pin(locked())])
    environments.create("more", base="base", requirements=[_pin(locked(name="other"))])
    environments.update("base", requirements=[_pin(locked(version="2.0"))])

    updated = environments.update("more")

    assert updated.packages == {"other": "1.0", "tinything": "2.0"}


def test_what_extends_an_extension_has_all_of_both(locked):
    environments.create("base", requirements=[_pin(locked())])
    environments.create("more", base="base", requirements=[_pin(locked(name="other"))])

    made = environments.create("most", base="more", requirements=[_pin(locked(name="third"))])

    assert made.packages == {"other": "1.0", "third": "1.0", "tinything": "1.0"}


def test_a_requirement_that_contradicts_what_is_extended_is_refused(locked):
    environments.create("base", lock=locked())
    locked(version="2.0")

    with pytest.raises(EnvironmentFailed, match="resolving the requirements failed"):
        environments.create("more", base="base", requirements=["tinything>=2"])

    assert environments.names() == ["base"]


@pytest.mark.parametrize("source", ["lock", "requirements"])
def test_adding_a_package_keeps_the_versions_that_are_there(locked, source):
    lock = locked()
    made_of: dict[str, Any] = {source: lock if source == "lock" else ["tinything"]}
    environments.create("tiny", **made_of)
    locked(version="2.0")
    locked(name="other")

    added = environments.add("tiny", ["other"])

    assert added.packages == {"other": "1.0", "tinything": "1.0"}
    assert added == environments.get("tiny")


def test_adding_to_default_tells_how_to_extend_it():
    with pytest.raises(InvalidArgument) as refused:
        environments.add("default", ["altair>=5"])

    assert str(refused.value).endswith("`groundbox environment create NAME --from default --requirement 'altair>=5'`")


def test_adding_to_what_is_not_there_says_how_it_is_made():
    with pytest.raises(EnvironmentFailed, match="there is no environment 'plots'"):
        environments.add("plots", ["altair"])


def test_an_environment_cannot_extend_itself(locked):
    environments.create("tiny", lock=locked())

    with pytest.raises(InvalidArgument, match="cannot extend itself"):
        environments.create("tiny", base="tiny", requirements=["other"])


def _pin(lock):
    return lock.read_text().partition(" ")[0]


@pytest.mark.parametrize("requirement", ["-r/etc/passwd", "--index-url=x", "", "a\n-e .", "./here", " -e ."])
def test_a_requirement_cannot_be_an_option_or_a_path(requirement):
    with pytest.raises(InvalidArgument, match="is not a requirement"):
        environments.create("tiny", requirements=[requirement])


def test_default_is_built_from_its_own_lock_only(tmp_path):
    with pytest.raises(InvalidArgument, match="'default' has its own lock"):
        environments.create("default", requirements=["tinything"])


def test_other_environments_need_something_to_be_made_from():
    with pytest.raises(InvalidArgument, match="'tiny' needs a lock, requirements or a base to be made from"):
        environments.create("tiny")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("raise RuntimeError('broken on purpose')", "import tinything: RuntimeError: broken on purpose"),
        ("raise SystemExit(0)", "import tinything: SystemExit: 0"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "the interpreter ended with -9"),
    ],
)
def test_a_version_that_fails_its_self_test_is_never_switched_to(locked, source, said):
    good = environments.create("tiny", lock=locked())

    with pytest.raises(EnvironmentFailed, match=said):
        environments.update("tiny", lock=locked(source, version="2.0"))

    assert environments.get("tiny") == good
    assert _version_folders("tiny") == [good.version_id]


def test_a_build_killed_in_the_middle_leaves_the_current_version_and_is_swept_up(locked):
    good = environments.create("tiny", lock=locked())
    stopped_in_the_middle = """
        import sys, time
        from pathlib import Path
        from groundbox.sandbox import environments
        def progress(words):
            print(words, flush=True)
            if words == "compiling":
                time.sleep(60)
        environments.update("tiny", lock=Path(sys.argv[1]), progress=progress)
    """
    builder = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(stopped_in_the_middle), locked(version="2.0")],
        stdout=subprocess.PIPE,
        text=True,
    )
    for words in builder.stdout:
        if words == "compiling\n":
            break

    builder.send_signal(signal.SIGKILL)
    builder.wait()
    builder.stdout.close()

    left = [name for name in _version_folders("tiny") if name.endswith(".building")]
    assert len(left) == 1
    assert environments.get("tiny") == good
    assert [finding.code for finding in environments.check("tiny")] == ["environment.leftover"]
    following = environments.update("tiny", lock=locked(version="3.0"))
    assert _version_folders("tiny") == [good.version_id, following.version_id]


def test_two_builds_at_once_come_one_after_the_other(locked):
    lock = locked()
    code = """
        import sys
        from pathlib import Path
        from groundbox.sandbox import environments
        print(environments.create("tiny", lock=Path(sys.argv[1])).version_id)
    """
    builders = [
        subprocess.Popen([sys.executable, "-c", textwrap.dedent(code), lock], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]

    made = {builder.communicate()[0].strip() for builder in builders}

    assert made == {environments.get("tiny").version_id}


def test_what_uses_an_old_version_keeps_it_until_it_is_done(locked):
    first = environments.create("tiny", lock=locked())
    with environments.lease(first):
        later = [environments.update("tiny", lock=locked(version=f"{n}.0")) for n in range(2, 6)]
        kept_while_leased = _version_folders("tiny")
        still_there = _python(first, "import tinything; print('yes')")
    last = environments.update("tiny", lock=locked(version="6.0"))

    assert still_there == "yes"
    assert kept_while_leased == [first.version_id, *(each.version_id for each in later[-3:])]
    assert _version_folders("tiny") == [*(each.version_id for each in later[-2:]), last.version_id]
    with (
        pytest.raises(EnvironmentFailed, match=f"version {first.version_id} of environment 'tiny' was removed"),
        environments.lease(first),
    ):
        pass


def test_a_child_that_inherits_a_lease_holds_it_when_its_parent_is_gone(locked):
    made = environments.create("tiny", lock=locked())
    with environments.lease(made) as descriptor:
        child = subprocess.Popen(["sleep", "60"], pass_fds=[descriptor])

    with pytest.raises(EnvironmentFailed, match="is in use"):
        environments.remove("tiny")
    child.kill()
    child.wait()
    environments.remove("tiny")

    assert environments.all() == []


def test_rollback_goes_back_one_version_and_says_when_there_is_none(locked):
    first = environments.create("tiny", lock=locked())
    second = environments.update("tiny", lock=locked(version="2.0"))

    back = environments.rollback("tiny")

    assert second.packages == {"tinything": "2.0"}
    assert back == first == environments.get("tiny")
    with pytest.raises(EnvironmentFailed, match="'tiny' has no version older than the current one"):
        environments.rollback("tiny")


def test_an_update_of_what_is_not_there_says_so():
    with pytest.raises(EnvironmentFailed, match="there is no environment 'tiny'"):
        environments.update("tiny", requirements=["tinything"])


def test_finding_environments_by_what_they_can_import(locked):
    environments.create("one", lock=locked(name="alpha"))
    environments.create("two", lock=locked(name="beta"))

    assert environments.which_has("alpha") == ["one"]
    assert environments.which_has("beta.sub.module") == ["two"]
    assert environments.which_has("gamma") == []
    assert environments.find(["alpha", "beta"]) == []


def test_check_finds_a_changed_file(locked):
    made = environments.create("tiny", lock=locked())
    assert environments.check("tiny") == []
    module = next(made.path.glob("lib/*/site-packages/tinything.py"))
    module.unlink()
    module.write_text("x = 2")

    findings = environments.check("tiny")

    assert [(each.code, each.tier) for each in findings] == [("environment.files", "error")]
    assert findings[0].message == "1 files are missing or not as published: tinything.py"
    environments.update("tiny")
    assert environments.check("tiny") == []


def test_check_finds_a_removed_package(locked):
    made = environments.create("tiny", lock=locked())
    for path in made.path.glob("lib/*/site-packages/tinything*.dist-info/*"):
        path.unlink()

    codes = [each.code for each in environments.check("tiny")]

    assert codes == ["environment.packages"]


def test_a_lost_interpreter_is_told_before_anything_is_started(locked):
    made = environments.create("tiny", lock=locked())
    made.python.unlink()

    with pytest.raises(EnvironmentFailed, match="has lost its interpreter"):
        environments.get("tiny")
    assert environments.update("tiny").packages == made.packages


def test_without_uv_the_mend_is_told(locked, tmp_path, monkeypatch):
    lock = locked()
    monkeypatch.setitem(sys.modules, "uv", None)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(EnvironmentFailed) as failed:
        environments.create("tiny", lock=lock)

    assert str(failed.value) == ("environments are built with uv, which is not installed: `pip install uv`")


def test_uv_takes_over_pips_index_unless_it_has_one_of_its_own(tmp_path):
    config = tmp_path / "pip.conf"
    config.write_text("[global]\nindex-url = https://packages.example.org/simple\n")

    by_file = uv.settings({"PIP_CONFIG_FILE": str(config), "PYTHONPATH": "/elsewhere"})
    by_variable = uv.settings({"PIP_CONFIG_FILE": str(config), "PIP_INDEX_URL": "https://other.example.org"})
    its_own = uv.settings({"PIP_CONFIG_FILE": str(config), "UV_DEFAULT_INDEX": "https://own.example.org"})
    none = uv.settings({"PIP_CONFIG_FILE": os.devnull})

    assert by_file["UV_DEFAULT_INDEX"] == "https://packages.example.org/simple"
    assert "PYTHONPATH" not in by_file
    assert by_variable["UV_DEFAULT_INDEX"] == "https://other.example.org"
    assert its_own["UV_DEFAULT_INDEX"] == "https://own.example.org"
    assert none == {"PIP_CONFIG_FILE": os.devnull, "UV_PYTHON_DOWNLOADS": "never", "UV_NO_PROGRESS": "1"}


def test_an_environment_that_cannot_be_read_is_left_out_of_what_can_be_used(locked):
    made = environments.create("tiny", lock=locked())
    (made.path.parent / "environment.json").write_text("{}")

    with pytest.raises(EnvironmentFailed, match="was built by another version of groundbox"):
        environments.get("tiny")
    assert environments.all() == []
    assert environments.names() == ["tiny"]
    environments.create("tiny", lock=locked())
    assert len(environments.all()) == 1


def test_a_home_that_cannot_be_written_is_told(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GROUNDBOX_HOME", str(tmp_path / "file"))

    with pytest.raises(EnvironmentFailed, match="cannot be written to: Not a directory"):
        environments.create("tiny", requirements=["tinything"])


def test_data_home_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.delenv("GROUNDBOX_HOME")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    by_default = environments.data_home()
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    by_xdg = environments.data_home()
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    ignored = environments.data_home()

    assert by_default == ignored == Path("/home/someone/.local/share/groundbox")
    assert by_xdg == Path("/data/groundbox")


def test_data_of_root_lies_outside_its_closed_home(monkeypatch):
    monkeypatch.delenv("GROUNDBOX_HOME")
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    assert environments.data_home() == Path("/var/lib/groundbox")


@pytest.mark.parametrize("requested", ["/nowhere/python3", "2.7.99", "true"])
def test_an_interpreter_that_cannot_be_used_is_bad_usage(requested):
    with pytest.raises(InvalidArgument, match="python: "):
        interpreter.choose(requested)


def test_a_venvs_interpreter_stands_for_the_one_it_was_made_from():
    chosen = interpreter.choose(sys.executable)

    assert chosen.path == Path(os.path.realpath(sys._base_executable))  # type: ignore[attr-defined]  # typeshed has it not
    assert chosen.version == sys.version_info[:3]


def test_the_shipped_lock_has_a_hash_for_everything_asked_for_and_names_no_host():
    lock = (LOCKS / "default.txt").read_text()

    entries = re.split(r"\n(?=[A-Za-z0-9])", lock.strip())
    locked_names = {re.split(r"[=\s;]", entry, maxsplit=1)[0] for entry in entries}
    lines = (LOCKS / "default.in").read_text().splitlines()
    asked = {line.partition("==")[0] for line in lines if line and line[0] != "#"}
    assert asked <= locked_names
    assert [entry for entry in entries if "--hash=sha256:" not in entry] == []
    assert "://" not in lock
    assert "--index" not in lock


def test_a_package_from_the_configured_index(monkeypatch):
    monkeypatch.delenv("UV_OFFLINE")
    monkeypatch.delenv("UV_FIND_LINKS")

    made = environments.create("small", requirements=["iniconfig"])

    assert _python(made, "import iniconfig; print(iniconfig.IniConfig.__name__)") == "IniConfig"


def test_the_default_environment_is_as_it_was_built(monkeypatch):
    monkeypatch.delenv("GROUNDBOX_HOME")
    if not any(each.name == "default" for each in environments.all()):
        pytest.skip("there is no default environment; `make setup` builds it")

    started = time.monotonic()
    findings = environments.check("default")

    assert [finding for finding in findings if finding.tier == "error"] == []
    assert list(environments.get().caches.glob("matplotlib/fontlist-*.json"))
    assert time.monotonic() - started < 120
