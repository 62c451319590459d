"""Suggestions: which argument was meant by one that there is not.

People call a limit `timeout` or `memory`, because other libraries do. `meant` knows such words by their meaning, then
looks for a name that is spelt alike, and says where the argument that was meant is given.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, TypeVar

from groundbox.errors import InvalidArgument, UnknownArgument

T = TypeVar("T")

_WORDS: Final[Mapping[str, str]] = {
    "wall_s": "timeout timeout_s timeout_seconds timeout_sec timeout_ms time_limit time_limit_s time max_time "
    "max_seconds max_duration duration seconds deadline wall wall_time wall_clock ttl run_timeout exec_timeout "
    "execution_timeout",
    "cpu_s": "cpu cpus cpu_time cpu_seconds cpu_limit cpu_timeout max_cpu",
    "memory_bytes": "memory mem memory_limit mem_limit memory_mb memory_mib memory_gb max_memory max_memory_bytes ram",
    "process_count": "processes process_limit max_processes pids pids_limit nproc threads max_threads max_workers",
    "disk_bytes": "disk disk_limit disk_mb disk_mib disk_size disk_space storage max_disk tmpfs_size",
    "file_count": "max_files file_limit inodes",
    "output_bytes": "output output_limit max_output max_output_bytes max_output_size max_stdout truncate",
    "allow": "host hosts allow_host allow_hosts allowed_hosts domains allow_domains allowed_domains allowlist "
    "allow_list whitelist",
    "loopback": "localhost",
    "headers": "header http_headers secrets credentials auth",
    "private_ranges": "private allow_private private_addresses cidr ranges",
    "limits": "limit resources resource_limits quota quotas",
    "network": "internet net networking online proxy proxies allow_network network_access enable_network "
    "allow_internet allow_internet_access internet_access allow_net",
    "environment": "environment_name image template venv container package packages requirement requirements reqs "
    "dependencies deps libs libraries modules pip install python python_version runtime",
    "backend": "engine driver isolation sandbox_type",
    "profile": "preload warm imports",
    "waive": "skip skip_layers disable without",
    "hash_seed": "seed random_seed pythonhashseed",
    "databases": "dbs connections database_urls",
    "inspect": "inspection",
    "tools": "tool functions callbacks host_functions",
    "restart": "auto_restart restart_policy",
    "files": "file data inputs input_files data_files upload uploads attachments mount mounts volumes",
    "source": "code program script cmd command snippet",
    "language": "lang kernel interpreter",
    "mode": "kind run_mode",
    "argv": "arguments cli_args script_args command_args sys_argv parameters params",
    "stdin": "input input_data input_text user_input stdin_data standard_input",
    "filename": "file_name script_name",
    "call": "function func function_name entry_point entrypoint",
    "args": "positional",
    "kwargs": "keywords keyword_arguments",
    "trace": "tracing trace_options record",
    "checks": "lint watch",
    "dialect": "sql_dialect flavor",
    "database": "db connection dsn con conn",
    "cwd": "working_directory working_dir workdir work_dir directory chdir",
    "env": "envs environ env_vars envvars environment_variables env_variables",
}
_MEANS: Final = {word: name for name, words in _WORDS.items() for word in words.split()}
_LIMITS: Final = frozenset(
    {"wall_s", "cpu_s", "memory_bytes", "process_count", "disk_bytes", "file_count", "output_bytes"}
)
_NETWORK: Final = frozenset({"allow", "loopback", "headers", "private_ranges"})
_SANDBOX: Final = frozenset(
    {"limits", "network", "environment", "backend", "profile", "waive", "hash_seed", "databases", "inspect", "tools"}
)
_OTHERWISE: Final[Mapping[str, str]] = {
    "check": "call raise_for_error() on the result",
    "raise_on_error": "call raise_for_error() on the result",
    "capture_output": "the result has stdout and stderr in any case",
    "stdout": "the result has stdout and stderr in any case",
    "stderr": "the result has stdout and stderr in any case",
    "stream": "call stream() of a Sandbox for events as they come",
    "on_stdout": "call stream() of a Sandbox for events as they come",
    "on_stderr": "call stream() of a Sandbox for events as they come",
    "on_output": "call stream() of a Sandbox for events as they come",
    "on_event": "call stream() of a Sandbox for events as they come",
    "callback": "call stream() of a Sandbox for events as they come",
    "session": "use one Sandbox for several runs to keep their variables",
    "session_id": "use one Sandbox for several runs to keep their variables",
    "persist": "use one Sandbox for several runs to keep their variables",
    "stateful": "use one Sandbox for several runs to keep their variables",
    "keep_alive": "use one Sandbox for several runs to keep their variables",
    "context": "use one Sandbox for several runs to keep their variables",
    "namespace": "give `args` of a call, `files` or `argv`; a program sees no variables of the host",
    "globals": "give `args` of a call, `files` or `argv`; a program sees no variables of the host",
    "locals": "give `args` of a call, `files` or `argv`; a program sees no variables of the host",
    "variables": "give `args` of a call, `files` or `argv`; a program sees no variables of the host",
    "vars": "give `args` of a call, `files` or `argv`; a program sees no variables of the host",
    "out": "what was made is in the result: its artifacts, displays and output",
    "out_dir": "what was made is in the result: its artifacts, displays and output",
    "output_dir": "what was made is in the result: its artifacts, displays and output",
    "background": "run_async() and AsyncSandbox are for code with an event loop",
    "raise_for_error": "call raise_for_error() on the result",
    "raise_errors": "call raise_for_error() on the result",
    "strict": "call raise_for_error() on the result",
    "path": "give what the file holds as the source, by its read_text()",
    "file_path": "give what the file holds as the source, by its read_text()",
    "script_path": "give what the file holds as the source, by its read_text()",
    "sql": "give the query as the source, with language='sql'",
    "query": "give the query as the source, with language='sql'",
    "gpu": "there is none inside; leave it out",
    "gpus": "there is none inside; leave it out",
    "cpu_count": "processors are shared; `cpu_s` and `process_count` of Limits bound their use",
    "cores": "processors are shared; `cpu_s` and `process_count` of Limits bound their use",
    "api_key": "nothing is sent anywhere; leave it out",
    "metadata": "keep it beside the result",
}
_LIKE: Final = 0.8
_LONGEST: Final = 60


def refuse_unknown(callee: str, given: Iterable[str], known: Collection[str]) -> None:
    """Raise for the first name in `given` that `callee` does not take.

    Args:
        callee: What was called, as it is written: `run()`.

    Raises:
        UnknownArgument: There is one.
    """
    for name in given:
        if name not in known:
            raise UnknownArgument(name, f"is no argument of {callee}{meant(name, callee, known)}")


def meant(name: str, callee: str, known: Collection[str]) -> str:
    """The end of a message: which argument was meant and where it is given, or "" for a name like no other."""
    word = name.lower().replace("-", "_")
    own = word if word in known else _MEANS.get(word, word)
    if own in known:
        return f"; did you mean `{own}`{_unit(own)}?"
    if word in _OTHERWISE:
        return f"; {_OTHERWISE[word]}"
    if own not in _MEANS.values():
        import difflib

        close = difflib.get_close_matches(word[:_LONGEST], sorted({*known, *_WORDS, *_MEANS}), 1, _LIKE)
        if not close:
            return f", which takes {', '.join(sorted(known))}" if len(known) < 10 else ""
        own = close[0] if close[0] in known else _MEANS.get(close[0], close[0])
        if own in known:
            return f"; did you mean `{own}`{_unit(own)}?"
    return f"; {_where(own, callee, known)}"


def named_only(kind: type[T]) -> type[T]:
    """Class decorator for a dataclass whose wrong arguments shall be told with the right ones."""
    made: Callable[..., None] = kind.__init__
    callee = f"{kind.__name__}()"

    @functools.wraps(made)
    def __init__(self: T, *unnamed: object, **given: object) -> None:
        if unnamed:
            first = next(iter(kind.__annotations__))
            raise InvalidArgument(callee, f"takes its arguments by name, such as {kind.__name__}({first}=…)")
        refuse_unknown(callee, given, kind.__annotations__)
        made(self, **given)

    kind.__init__ = __init__  # type: ignore[method-assign, assignment]
    return kind


def _where(own: str, callee: str, known: Collection[str]) -> str:
    """How an argument is given that is none of `callee`'s own."""
    if own in _LIMITS:
        return f"did you mean {_within('limits', f'Limits({own}=…)', known)}{_unit(own)}?"
    if own in _NETWORK:
        return f"did you mean {_within('network', f'Network({own}=…)', known)}?"
    if own in _SANDBOX and callee != "Sandbox()":
        return f"did you mean `Sandbox({own}=…)`?"
    if own == "files":
        return "did you mean `files.write(path, data)` of the sandbox?"
    return f"did you mean `run(…, {own}=…)`{_unit(own)}?"


def _within(name: str, value: str, known: Collection[str]) -> str:
    return f"`{name}={value}`" if name in known else f"`Sandbox({name}={value})`"


def _unit(name: str) -> str:
    if name.endswith("_s"):
        return " (seconds)"
    return " (bytes, such as 512 * MiB)" if name.endswith("_bytes") else ""
