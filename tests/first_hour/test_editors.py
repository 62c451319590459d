"""Editors, type checkers and people who guess: signatures are real, and a wrong argument names the right one."""

import dataclasses
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import groundbox as gb
from groundbox import execution
from groundbox.errors import InvalidArgument, UnknownArgument
from groundbox.sandbox import options

RIGHT = """
import asyncio
import groundbox as gb

execution: gb.Execution = gb.run("1", wall_s=5, limits=gb.Limits(cpu_s=2), files={"a.txt": "1"}, mode="script")
with gb.Sandbox(network=gb.Network(allow=["example.org"]), restart="auto", limits=None) as box:
    text: str | None = box.run("SELECT 1", language="sql", dialect="sqlite", wall_s=1.5, database=None, env=None).text
    events: list[gb.Event] = list(box.stream("1", last=True))
    box.files.write("a.txt", b"1", mode=0o600)
    data: bytes = box.files.read("a.txt")
    sizes: dict[str, int] = box.files.list()
    lost: list[str] = box.restart()
    limits: gb.Limits = box.limits

async def main() -> gb.Execution:
    async with gb.AsyncSandbox(profile="bare", hash_seed=0) as box:
        return await box.run("f", mode="call", call="f", args=[1], trace=True)
"""
WRONG = [
    'gb.run("1", wal_s=5)',
    'gb.run("1", wall_s="5")',
    'gb.run("1", mode="notebook")',
    "gb.run(source=1)",
    'gb.Sandbox().run("1", timeout=5)',
    'gb.Sandbox().stream("1", timeout=5)',
    "gb.Sandbox(limit=gb.Limits())",
    "gb.AsyncSandbox(memory_bytes=5)",
    "gb.Sandbox().files.write(1, b'')",
    "gb.Sandbox().nothing()",
    "gb.Limits(timeout=5)",
]


def test_mypy_accepts_what_can_be_asked_and_refuses_each_slip(tmp_path):
    right, wrong = tmp_path / "right.py", tmp_path / "wrong.py"
    right.write_text(RIGHT)
    wrong.write_text("import groundbox as gb\n\n" + "\n".join(WRONG) + "\n")
    mypy = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", f"--cache-dir={tmp_path}/cache"]
    follow = ["--follow-imports=silent", "--config-file=", f"--python-version=3.{sys.version_info.minor}"]

    told = subprocess.run([*mypy, *follow, str(right), str(wrong)], capture_output=True, text=True, cwd=tmp_path)

    refused = {line.split(":")[1] for line in told.stdout.splitlines() if "wrong.py" in line and ": error:" in line}
    assert "right.py" not in told.stdout, told.stdout
    assert refused == {str(number) for number in range(3, 3 + len(WRONG))}, told.stdout


@pytest.mark.parametrize(
    ("function", "typed"),
    [
        (gb.run, options.OneRunOptions),
        (gb.run_async, options.OneRunOptions),
        (gb.Sandbox, options.SandboxOptions),
        (gb.AsyncSandbox, options.SandboxOptions),
        (gb.Sandbox.run, options.RunOptions),
        (gb.AsyncSandbox.run, options.RunOptions),
        (gb.Sandbox.stream, options.StreamOptions),
        (gb.AsyncSandbox.stream, options.StreamOptions),
    ],
)
def test_a_signature_names_every_argument_with_its_type_and_its_default(function, typed):
    shown = inspect.signature(function).parameters

    named = {name: each for name, each in shown.items() if each.kind is each.KEYWORD_ONLY}
    assert named.keys() == typed.__annotations__.keys()
    assert not [each for each in shown.values() if each.kind is each.VAR_KEYWORD]
    assert all(each.annotation and each.default is not each.empty for each in named.values())


@pytest.mark.parametrize("typed", [options.OneRunOptions, options.StreamOptions, options.SandboxOptions])
def test_an_annotation_accepts_a_default_of_none(typed):
    annotations = {name: getattr(kind, "__forward_arg__", kind) for name, kind in typed.__annotations__.items()}

    assert [name for name, kind in annotations.items() if options.DEFAULTS[name] is None and "None" not in kind] == []


def test_none_leaves_out_an_argument_of_a_language():
    nones = {name: None for name in options.LANGUAGE if options.DEFAULTS[name] is None}

    with gb.Sandbox(profile="bare") as box:
        assert box.run("6 * 7", **nones).text == "42"
        assert box.run("echo 42", language="shell", **nones).stdout == "42\n"
        assert box.run("SELECT 42 AS a", language="sql", **nones).ok


def test_a_default_that_is_shown_can_be_given():
    shown = inspect.signature(gb.run).parameters.values()
    of_languages = options.LANGUAGE
    given = {each.name: each.default for each in shown if each.default is not each.empty}

    result = gb.run("6 * 7", **{name: value for name, value in given.items() if name not in of_languages})

    assert result.text == "42"


@pytest.mark.parametrize(
    "documented",
    [gb.run, gb.run_async, gb.Sandbox.__init__, gb.AsyncSandbox.__init__, gb.Sandbox.run, gb.AsyncSandbox.run],
)
def test_a_docstring_tells_the_arguments_and_the_errors(documented):
    text = inspect.getdoc(documented)

    assert "Args:" in text
    assert "Raises:" in text


def test_every_argument_of_a_sandbox_and_of_a_run_is_explained():
    explained = inspect.getdoc(gb.AsyncSandbox.__init__) + inspect.getdoc(gb.AsyncSandbox.run)

    assert [name for name in sorted(options.SANDBOX | options.RUN) if f"\n    {name}: " not in explained] == []


VALUES = [gb.Execution, gb.Artifact, gb.Display, gb.Event, gb.Limits, gb.Network, gb.TraceOptions]
PARTS = [execution.Failure, execution.Warning, execution.Usage, execution.Isolation, execution.ToolCalls]


@pytest.mark.parametrize("kind", [*VALUES, *PARTS, execution.ToolCall])
def test_every_field_of_a_value_is_explained(kind):
    names = [each.name for each in dataclasses.fields(kind) if not each.name.startswith("_")]

    assert [name for name in names if f"\n    {name}: " not in inspect.getdoc(kind)] == []


def test_dir_lists_what_is_there():
    with gb.Sandbox(profile="bare") as box:
        assert set(gb.__all__) <= set(dir(gb))
        assert {"write", "put", "mkdir", "remove", "read", "list"} <= set(dir(box.files))
        assert {"read", "write", "stat", "list", "exists", "realpath", "workdir"} <= set(dir(box.guest_files))
        assert {"run", "stream", "restart", "close", "interrupt", "limits", "network"} <= set(dir(box))
        assert list(inspect.signature(box.files.write).parameters) == ["path", "data", "mode"]
        assert "Raises:" in box.files.read.__doc__


RUN_SLIPS = [
    ({"timeout": 5}, "timeout: is no argument of run(); did you mean `wall_s` (seconds)?"),
    ({"wal_s": 5}, "wal_s: is no argument of run(); did you mean `wall_s` (seconds)?"),
    ({"lang": "sql"}, "lang: is no argument of run(); did you mean `language`?"),
    ({"input": "x"}, "input: is no argument of run(); did you mean `stdin`?"),
    ({"Mode": "cell"}, "Mode: is no argument of run(); did you mean `mode`?"),
    ({"check": True}, "check: is no argument of run(); call raise_for_error() on the result"),
]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        *RUN_SLIPS,
        (
            {"memory": 5},
            "memory: is no argument of run(); did you mean `limits=Limits(memory_bytes=…)` (bytes, such as 512 * MiB)?",
        ),
        ({"memory_byte": 5}, "memory_byte: is no argument of run(); did you mean `limits=Limits(memory_bytes=…)` "
         "(bytes, such as 512 * MiB)?"),
        ({"internet": True}, "internet: is no argument of run(); did you mean `network`?"),
        ({"allow": ["a.b"]}, "allow: is no argument of run(); did you mean `network=Network(allow=…)`?"),
        ({"packages": ["x"]}, "packages: is no argument of run(); did you mean `environment`?"),
        ({"zzz": 5}, "zzz: is no argument of run()"),
        ({"main": "f"}, "main: is no argument of run()"),
        ({"bind": "f"}, "bind: is no argument of run()"),
        ({"max_tokns": 5}, "max_tokns: is no argument of run(); did you mean `max_tokens`?"),
        ({"libraries": ["x"]}, "libraries: is no argument of run(); did you mean `environment`?"),
        ({"data": {}}, "data: is no argument of run(); did you mean `files`?"),
        ({"path": "x.py"},
         "path: is no argument of run(); give what the file holds as the source, by its read_text()"),
        ({"globals": {}}, "globals: is no argument of run(); give `args` of a call, `files` or `argv`; "
         "a program sees no variables of the host"),
        ({"output_dir": "x"},
         "output_dir: is no argument of run(); what was made is in the result: its artifacts, displays and output"),
        (
            {"cwd": "x"},
            "cwd: is no argument of run() for python (it belongs to shell), "
            "and python takes call_cpu_s, call_wall_s, checks, env, namespace",
        ),
        (
            {"mode": "script", "args": ["a"]},
            "args: belongs to a call; a script's arguments are `argv`",
        ),
        (
            {"language": "shell", "args": ["a"]},
            "args: belongs to a call of a Python function; a script's arguments are `argv`",
        ),
        ({"limits": {"wall_s": 5}}, "limits: must be Limits(…), not of type dict"),
        ({"network": True}, "network: must be Network(…), not of type bool"),
    ],
)  # fmt: skip
def test_a_wrong_argument_of_groundbox_run_names_the_right_one(given, message):
    with pytest.raises(InvalidArgument) as refused:
        gb.run("1", **given)

    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("given", "message"),
    [
        *RUN_SLIPS,
        (
            {"memory": 5},
            "memory: is no argument of run(); did you mean `Sandbox(limits=Limits(memory_bytes=…))` "
            "(bytes, such as 512 * MiB)?",
        ),
        ({"limits": None}, "limits: is no argument of run(); did you mean `Sandbox(limits=…)`?"),
        ({"files": {}}, "files: is no argument of run(); did you mean `files.write(path, data)` of the sandbox?"),
        ({"restart": True}, "restart: must be 'auto' or 'never', not True"),
    ],
)
@pytest.mark.parametrize("way", ["run", "stream"])
def test_a_wrong_argument_of_a_sandbox_run_names_the_right_one(given, message, way):
    with gb.Sandbox(profile="bare") as box, pytest.raises(InvalidArgument) as refused:
        list(getattr(box, way)("1", **given))

    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("make", "given", "message"),
    [
        (gb.Sandbox, {"timeout": 5},
         "timeout: is no argument of Sandbox(); did you mean `limits=Limits(wall_s=…)` (seconds)?"),
        (gb.AsyncSandbox, {"image": "x"}, "image: is no argument of Sandbox(); did you mean `environment`?"),
        (gb.Sandbox, {"language": "sql"},
         "language: is no argument of Sandbox(); did you mean `run(…, language=…)`?"),
        (gb.Limits, {"timeout": 5}, "timeout: is no argument of Limits(); did you mean `wall_s` (seconds)?"),
        (gb.Limits, {"memory_mb": 5},
         "memory_mb: is no argument of Limits(); did you mean `memory_bytes` (bytes, such as 512 * MiB)?"),
        (gb.Network, {"hosts": []}, "hosts: is no argument of Network(); did you mean `allow`?"),
        (gb.Network, {"wall_s": 5},
         "wall_s: is no argument of Network(); did you mean `Sandbox(limits=Limits(wall_s=…))` (seconds)?"),
        (gb.TraceOptions, {"zzz": 5},
         "zzz: is no argument of TraceOptions(), which takes core, max_bytes, max_events, soft_events"),
    ],
)  # fmt: skip
def test_a_wrong_argument_of_a_value_names_the_right_one(make, given, message):
    with pytest.raises(UnknownArgument) as refused:
        make(**given)

    assert str(refused.value) == message
    assert isinstance(refused.value, TypeError)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"files": ["a.csv"]}, "files: must be a mapping of paths to contents, not of type list"),
        ({"files": {"a.csv": 3}}, "a.csv: must be text or bytes, not of type int"),
        ({"files": {"a.csv": Path("/x")}},
         "a.csv: must be text or bytes, not a path; files.put(source) copies a file of the host"),
        ({"files": {b"a.csv": "1"}}, "path: must be text, such as 'data/sales.csv', not of type bytes"),
        ({"files": {"a.csv": "\ud800"}},
         "a.csv: holds half of a surrogate pair, which is no text; give bytes instead"),
        ({"environment": None}, "environment: must be the name of an environment, such as 'default', not None"),
        ({"backend": ["landlock"]}, "backend: must be the name of a backend, such as 'namespaces', not of type list"),
        ({"profile": 1}, "profile: must be None or the name of a profile, such as 'science', not 1"),
        ({"waive": "cgroup"}, "waive: must be a list of layers, such as ['cgroup'], not 'cgroup'"),
        ({"hash_seed": "0"}, "hash_seed: must be None or a whole number from 0 to 4294967295, not '0'"),
        ({"hash_seed": -1}, "hash_seed: must be None or a whole number from 0 to 4294967295, not -1"),
        ({"databases": "shop"}, "databases: must be names to databases or URLs, or a list of names, not 'shop'"),
        ({"inspect": "no"}, "inspect: must be True or False, not 'no'"),
        ({"tools": print}, "tools: must be a list of functions, not of type builtin_function_or_method"),
        ({"mode": "script", "stdin": 3}, "stdin: must be text or bytes, not of type int"),
        ({"mode": "script", "stdin": "\ud800"},
         "stdin: holds half of a surrogate pair, which is no text; give bytes instead"),
        ({"mode": "script", "argv": None}, "argv: must be a list of texts without NUL"),
        ({"filename": 3}, "filename: must be a text without NUL"),
        ({"mode": "call", "call": "f", "kwargs": ["x"]},
         "args: must be a list of values; kwargs a mapping from names to values"),
        ({"mode": "call", "call": "f", "args": 3},
         "args: must be a list of values; kwargs a mapping from names to values"),
    ],
)  # fmt: skip
def test_a_value_of_a_wrong_kind_is_refused_in_words(given, message):
    with pytest.raises(InvalidArgument) as refused:
        gb.run("1", **given)

    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"allow": True}, "allow: must be a list of hosts, such as ['example.org']"),
        ({"private_ranges": "10.0.0.0/8"}, "private_ranges: must be a list of ranges, such as ['10.0.0.0/8']"),
        ({"private_ranges": 3}, "private_ranges: must be a list of ranges, such as ['10.1.0.0/16']"),
        ({"loopback": "no"}, "loopback: must be True or False, not 'no'"),
        ({"headers": 1}, "headers: must map hosts to their headers, such as {'example.org': {'X-Key': '…'}}"),
    ],
)
def test_a_network_of_a_wrong_kind_is_refused_in_words(given, message):
    with pytest.raises(InvalidArgument) as refused:
        gb.Network(**given)

    assert str(refused.value) == message


def test_a_path_as_source_is_told_how_to_be_read():
    with pytest.raises(InvalidArgument, match=r"must be text, not PosixPath; give what the file holds"):
        gb.run(Path("x.py"))  # type: ignore[arg-type]


def test_arguments_of_a_script_may_be_made_one_by_one():
    result = gb.run("import sys; print(sys.argv[1:])", mode="script", argv=(letter for letter in "ab"))

    assert result.stdout == "['a', 'b']\n"


def test_limits_without_a_name_are_told_how_to_be_named():
    with pytest.raises(InvalidArgument) as refused:
        gb.Limits(30)  # type: ignore[call-arg]  # refused

    assert str(refused.value) == "Limits(): takes its arguments by name, such as Limits(wall_s=…)"


def test_groundbox_run_may_be_given_more_time_than_is_usual():
    result = gb.run("import resource; resource.getrlimit(resource.RLIMIT_CPU)[0]", wall_s=120)

    assert result.ok
    assert int(result.text) >= 120


def test_no_file_of_the_package_hides_its_types():
    assert (Path(gb.__file__).parent / "py.typed").is_file()
