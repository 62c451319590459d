"""Process in which lm-evaluation-harness opens tasks and scores replies: `groundbox.learn.evaluation.harness` asks it.

Task code of that package runs here and nowhere else, so that a reply on which a pattern runs for hours costs this
process alone. Once its tasks are open it gives up, where the kernel has Landlock, what scoring needs not: starting
programs, writing but in a folder of its own, TCP; and memory above a limit. That is a second wall. The first: tasks
that may execute a reply are refused (`groundbox.learn.evaluation.executing`).

A message is one JSON value each way. Nothing that comes from here is unpickled.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import math
import os
import resource
import signal
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from groundbox.jail import capabilities, credentials, landlock
from groundbox.learn.evaluation.executing import executing

SEED: Final = 1234
"""Of the examples that are shown, as the harness has it."""
_MOST_MEMORY_BYTES: Final = 16 << 30
_MOST_STOPS: Final = 4
"""Strings that end a reply, as many as the harness sends to endpoints; all of them end it here."""
_MOST_WHY: Final = 500
_READ: Final = landlock.READ & ~landlock.EXECUTE


class Refused(Exception):
    """A task that cannot be asked here. The text says why."""


def serve(pipe: Connection, wanted: Mapping[str, Any], own: str) -> None:
    """Open the tasks, tell their questions, and score until the other end closes.

    Args:
        wanted: `tasks` (names or files of YAML), `include` (a folder, or "").
        own: The folder in which it may write.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all of a terminal, and is meant for the parent alone
    credentials.die_with_parent()
    os.dup2(2, 1)  # what libraries print belongs to no report
    os.environ |= {"TQDM_DISABLE": "1", "HF_DATASETS_DISABLE_PROGRESS_BARS": "1", "TOKENIZERS_PARALLELISM": "false"}
    os.environ.pop("HF_ALLOW_CODE_EVAL", None)
    logging.disable(logging.WARNING)
    os.environ["TMPDIR"] = tempfile.tempdir = own
    try:
        tasks = _Tasks(wanted["tasks"], wanted["include"])
        opened: dict[str, Any] = tasks.told()
    except Refused as why:
        opened = {"refused": str(why)}
    except ModuleNotFoundError as error:
        opened = {"missing": str(error.name or error), "why": str(error)[:_MOST_WHY]}
    except Exception as error:  # of any library that a task needs: to be told, and nothing goes on from it
        opened = {"refused": f"cannot be opened: {type(error).__name__}: {str(error)[:_MOST_WHY]}"}
    _send(pipe, opened)
    if "questions" in opened:
        _restrict(own)
        with contextlib.suppress(EOFError, OSError):
            while True:
                _send(pipe, tasks.answer(json.loads(pipe.recv_bytes())))


class _Tasks:
    """Open tasks with their requests."""

    def __init__(self, names: Sequence[str], include: str) -> None:
        self._tasks = _load(names, include)
        self._requests: dict[str, list[Any]] = {}
        self._plain: dict[str, list[Any]] = {}
        for name, task in self._tasks.items():
            _check(name, task, include)
            if task.get_config("num_fewshot") is None:
                task.set_config(key="num_fewshot", value=0)
            self._plain[name] = _built(task)
            as_messages: dict[str, Any] = {"apply_chat_template": True, "fewshot_as_multiturn": True}
            self._requests[name] = _built(task, chat_template=_conversation, **as_messages)

    def told(self) -> dict[str, Any]:
        """Questions and facts, as JSON."""
        return {
            "questions": [each for name in self._tasks for each in self._questions(name)],
            "tasks": {name: self._facts(name) for name in self._tasks},
            "version": metadata.version("lm_eval"),
        }

    def answer(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out one request."""
        if asked["do"] == "score":
            return self._score(asked["task"], asked["number"], asked["text"])
        return {task: self._aggregate(task, values) for task, values in asked["values"].items()}

    def _questions(self, name: str) -> Iterator[dict[str, Any]]:
        for number, (plain, request) in enumerate(zip(self._plain[name], self._requests[name], strict=True)):
            text, _ = plain.args
            conversation, how = request.args
            options, stop = _options(how)
            yield {
                "task": name, "number": number, "doc": request.doc_id, "prompt": text, "messages": conversation,
                "options": options, "stop": stop,
            }  # fmt: skip

    def _facts(self, name: str) -> dict[str, Any]:
        task = self._tasks[name]
        config = json.dumps(task.dump_config(), sort_keys=True, default=str)
        return {
            "version": str(task.VERSION),
            "num_fewshot": task.get_config("num_fewshot"),
            "filters": [each.name for each in task._filters],
            "config": hashlib.sha256(config.encode("utf-8", "backslashreplace")).hexdigest(),
        }

    def _score(self, name: str, number: int, text: str) -> dict[str, Any]:
        try:
            return self._scored(name, number, text)
        except Exception as error:  # of a task's own code
            why = f"{type(error).__name__}: {str(error)[:_MOST_WHY]}"
        try:
            return {**self._scored(name, number, ""), "failed": why}
        except Exception:  # it bears no text at all, so that it says nothing about this one
            return {"broken": why}

    def _scored(self, name: str, number: int, text: str) -> dict[str, Any]:
        task, request = self._tasks[name], self._requests[name][number]
        request.resps, request.filtered_resps = [text], {}
        for each in task._filters:
            each.apply([request])
        metrics: dict[str, Any] = {}
        for key, filtered in request.filtered_resps.items():
            found = task.process_results(request.doc, [filtered])
            metrics |= {f"{metric},{key}": _plain(value) for metric, value in found.items()}
        first = next(iter(request.filtered_resps.values()))
        main = next(iter(metrics), "")
        better = task.higher_is_better().get(main.partition(",")[0], True)
        return {"metrics": metrics, "main": main, "higher_is_better": better is not False, "answer": str(first)}

    def _aggregate(self, name: str, values: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
        from lm_eval.api.metrics import mean, mean_stderr

        known = self._tasks[name].aggregation()
        found = {}
        for key, each in values.items():
            aggregate = known.get(key.partition(",")[0], mean)
            rows = [tuple(value) if isinstance(value, list) else value for value in each]
            try:
                error = _plain(mean_stderr(rows)) if aggregate is mean and len(rows) > 1 else None
                found[key] = {"value": _plain(aggregate(rows)), "stderr": error, "replies": len(rows)}
            except Exception as why:  # of a task's own code
                found[key] = {"value": None, "why": f"{type(why).__name__}: {str(why)[:_MOST_WHY]}"}
        return found


def _load(names: Sequence[str], include: str) -> dict[str, Any]:
    """Tasks by name; the index of all of the package's own is made only where a name is not the user's."""
    from lm_eval.tasks import TaskManager

    manager = TaskManager(include_path=include or None, include_defaults=False)
    if any(name not in manager.all_tasks and not Path(name).is_file() for name in names):
        manager = TaskManager(include_path=include or None)
    for name in names:
        if name not in manager.all_tasks and not Path(name).is_file():
            raise Refused(
                f"there is no task {name!r} in lm-evaluation-harness {metadata.version('lm_eval')}, and no such file; "
                "--include-path names a folder with tasks of your own"
            )
    found: dict[str, Any] = manager.load(list(names))["tasks"]
    return found


def _check(name: str, task: Any, include: str) -> None:
    """Refuse a task that cannot be asked of a chat, or whose scoring may execute a reply."""
    kind = task.OUTPUT_TYPE
    if kind != "generate_until":
        raise Refused(
            f"the task {name} is of the kind {kind}: it asks how likely given texts are, which chats are not asked. "
            "Run it in lm-evaluation-harness itself, with --model hf or local-completions"
        )
    if getattr(task, "MULTIMODAL", False):
        raise Refused(f"the task {name} asks about pictures or sounds, and questions here are texts")
    if (task.get_config("repeats") or 1) != 1:
        raise Refused(
            f"the task {name} asks each question {task.get_config('repeats')} times, and here none is asked twice"
        )
    if getattr(task, "UNSAFE_CODE", False):
        raise Refused(f"the task {name} is marked unsafe_code: its scorer executes what a model wrote, on this machine")
    import lm_eval.tasks

    roots = [Path(str(lm_eval.tasks.__file__)).parent, *([Path(include)] if include else [])]
    if place := executing(_scorers(task), roots):
        raise Refused(
            f"scoring the task {name} may execute what a model wrote, on this machine: {place}. "
            "Run it in lm-evaluation-harness itself, where you trust the model or the machine is nobody's"
        )


def _scorers(task: Any) -> Iterator[Any]:
    """Functions and classes of a task that are given a reply, but those of the harness itself."""
    found = [type(task), task.config.process_results, *task._metric_fn_list.values(), *task.aggregation().values()]
    found += [each for ensemble in task._filters for each in ensemble.filters]
    for each in found:
        module = getattr(getattr(each, "func", each), "__module__", None) or ""
        if each is not None and not module.startswith(("lm_eval.api", "lm_eval.filters")):
            yield each


def _built(task: Any, **how: Any) -> list[Any]:
    """Requests of all documents, in their order."""
    task.set_fewshot_seed(seed=SEED)
    task.build_all_requests(**how)
    requests = list(task.instances)
    if any(len(each.args) != 2 for each in requests):
        raise Refused("its requests hold more than a text")
    return requests


def _conversation(messages: Sequence[Mapping[str, str]], **how: Any) -> list[dict[str, str]]:
    """Leave messages as they are; an endpoint has the template of its model."""
    return [dict(each) for each in messages]


def _options(how: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Keys of a request, as the harness gives them to endpoints; and all strings that end a reply."""
    options = {name: value for name, value in how.items() if name not in ("until", "do_sample", "max_gen_toks")}
    until = how.get("until") or []
    stop = [each for each in ([until] if isinstance(until, str) else until) if each]
    if "max_gen_toks" in how:
        options.setdefault("max_tokens", how["max_gen_toks"])
    if how.get("do_sample") is False:
        options["temperature"] = 0.0
    if stop:
        options["stop"] = stop[:_MOST_STOPS]
    return options, stop


def _plain(value: Any) -> Any:
    """A value as JSON has it; what is not finite is None."""
    if hasattr(value, "tolist"):  # numpy's
        value = value.tolist()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def _restrict(own: str) -> None:
    """Give up what scoring needs not; what the kernel cannot take away stays."""
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_DATA, (_MOST_MEMORY_BYTES, _MOST_MEMORY_BYTES))
    version = landlock.abi()
    if not version:
        return
    rules = [landlock.opened(landlock.Rule(path, rights)) for path, rights in _paths(own)]
    capabilities.no_new_privileges()
    landlock.restrict(rules, version=version, tcp=False)


def _paths(own: str) -> Iterator[tuple[str, int | None]]:
    yield "/", _READ
    yield own, None
    for device in ("/dev/null", "/dev/shm"):
        if os.path.exists(device):
            yield device, landlock.WRITE_DEVICE if device == "/dev/null" else None


def _send(pipe: Connection, message: Any) -> None:
    pipe.send_bytes(json.dumps(message).encode())
