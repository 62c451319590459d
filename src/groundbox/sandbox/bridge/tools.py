"""What one sandbox is granted: tools, how much of them, and who is asked.

A `Tools` can be given to several sandboxes; what is counted is counted for each of them alone.
"""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import json
import re
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from groundbox.errors import InvalidArgument
from groundbox.limits import MiB
from groundbox.sandbox.bridge.frames import MOST_FRAME_BYTES
from groundbox.sandbox.bridge.log import Replay, ToolLog, of_one
from groundbox.sandbox.bridge.tool import Tool, tool

_MANIFEST_BYTES: Final = MOST_FRAME_BYTES // 4
_MOST_TOOLS: Final = 5000
_FOUND: Final = 20
_COMPARED, _LONGEST = 200, 100
_WORD: Final = re.compile(r"[a-z0-9]+")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ToolQuotas:
    """Bounds on the tool calls of one run. Seconds are of the host's monotonic clock.

    Attributes:
        calls: Reached: further calls fail in the guest; as many again end the run.
        concurrent: Calls that are carried out at once; others wait.
        call_s: For one call, also in its queue. Reached: it fails in the guest; a function in a thread runs on.
        waiting_s: For how long in all the run's `wall_s` stands still while the host works for it. Reached: it goes on.
        sent_bytes: Arguments of all calls together. Reached: further calls fail.
        received_bytes: Results of all calls together. Reached: further calls fail.
        result_bytes: One result. Over: that call fails.
        frames: Messages of every kind. Reached: the run ends.
    """

    calls: int = 500
    concurrent: int = 8
    call_s: float = 60.0
    waiting_s: float = 300.0
    sent_bytes: int = 64 * MiB
    received_bytes: int = 64 * MiB
    result_bytes: int = 32 * MiB
    frames: int = 10_000

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 2**53:
                raise InvalidArgument(field.name, f"must be a number above 0, not {value!r}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ToolRequest:
    """A call that somebody is to decide on.

    Attributes:
        arguments: As the tool would get them; they are a guest's words.
        run: The number of the run in its sandbox, from 1.
        seq: The number of the call in its sandbox, from 1.
        withdrawn: Set when the answer to a question counts no more: its call was taken back, its run has ended, or it
            took too long.
    """

    tool: Tool
    arguments: Mapping[str, Any]
    run: int
    seq: int
    withdrawn: threading.Event = dataclasses.field(default_factory=threading.Event, repr=False, compare=False)


Policy = Callable[[ToolRequest], str | Awaitable[str]]
Approve = Callable[[ToolRequest], bool | Awaitable[bool | None] | None]
Redact = Callable[[str, Any], Any]


class Tools:
    """Tools that a sandbox is granted: `Sandbox(tools=Tools([search, Tool("db.query", query)]))`.

    Attributes:
        manifest: What the guest is told at first: all there is, without schemas where they are too large together.
    """

    def __init__(
        self,
        tools: Iterable[Tool | Callable[..., Any]] | Mapping[str, Callable[..., Any]],
        *,
        quotas: ToolQuotas | None = None,
        policy: Policy | None = None,
        approve: Approve | None = None,
        approval_s: float = 300.0,
        redact: Redact | None = None,
        log: ToolLog | None = None,
        replayed: Iterable[Mapping[str, Any]] = (),
    ) -> None:
        """Args:
        policy: Asked before each call: `allow`, `deny` or `ask`. What it raises is a no.
        approve: Asked for calls that need approval, by the tool or by the policy: True, False, or None for "not now".
            Without it, such a call ends the run at once, and the log can be replayed when there is an answer.
        approval_s: How long an answer is waited for once its question is asked, one at a time in a sandbox; the guest
            is frozen meanwhile where the kernel can do that.
        redact: Called with `args`, `value` or `error` and the content; returns what the log and results may show.
        log: Gets a row for each call.
        replayed: Rows of a log, from which calls are answered until it ends; see `replay`.

        Raises:
            InvalidArgument: A tool has no usable name or schema, or a name is there twice.
        """
        named = [Tool(name, each) for name, each in tools.items()] if isinstance(tools, Mapping) else tools
        self._tools: dict[str, Tool] = {}
        for each in named:
            made = each if isinstance(each, Tool) else tool(each)
            if made.name in self._tools:
                raise InvalidArgument("tools", f"{made.name!r} is there twice")
            self._tools[made.name] = made
        self._check_names()
        self._words = {each.name: _words(each) for each in self._tools.values()}
        whole = [each.row() for each in self._tools.values()]
        small = len(json.dumps(whole)) <= _MANIFEST_BYTES
        self.manifest = whole if small else [each.row(schemas=False) for each in self._tools.values()]
        if not approval_s > 0:
            raise InvalidArgument("approval_s", f"must be above 0, not {approval_s!r}")
        self.quotas = quotas or ToolQuotas()
        self.policy, self.approve, self.approval_s = policy, approve, approval_s
        self.redact, self.log = redact, log
        self._replayed = list(replayed)
        Replay(self._replayed)

    def _check_names(self) -> None:
        if len(self._tools) > _MOST_TOOLS:
            raise InvalidArgument("tools", f"{len(self._tools)} are too many; there can be {_MOST_TOOLS}")
        for name in self._tools:
            parts = name.split(".")
            for end in range(1, len(parts)):
                if ".".join(parts[:end]) in self._tools:
                    raise InvalidArgument("tools", f"{'.'.join(parts[:end])!r} cannot be a tool and hold {name!r}")

    def __len__(self) -> int:
        return len(self._tools)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def get(self, name: str) -> Tool | None:
        """The tool of that name."""
        return self._tools.get(name)

    def replay(
        self, log: ToolLog | Iterable[Mapping[str, Any]], /, *, sandbox: str | None = None, **changes: Any
    ) -> Tools:
        """The same tools, answered from a log as long as a run asks for what it has.

        After its last row, calls are live. A run that asks for something else is ended: its failure is `ToolDiverged`.

        Args:
            sandbox: Whose calls, where the log has those of several: `execution.tool_calls.sandbox`.
            changes: Other arguments than this one has, such as `approve`.
        """
        kept = {
            "quotas": self.quotas,
            "policy": self.policy,
            "approve": self.approve,
            "approval_s": self.approval_s,
            "redact": self.redact,
            "log": self.log,
        }
        return Tools(list(self), replayed=of_one(log, sandbox), **{**kept, **changes})

    def recorded(self) -> Replay:
        """The calls to be answered from a log, for one sandbox."""
        return Replay(self._replayed)

    def near(self, name: str) -> list[str]:
        """Names like one that there is not."""
        return difflib.get_close_matches(name[:_LONGEST], list(self._tools)[:_COMPARED], 3)

    def search(self, query: str) -> list[dict[str, Any]]:
        """The tools that fit some words best."""
        words = set(_WORD.findall(query.lower()))
        found = [(len(words & self._words[each.name]), each) for each in self]
        best = sorted((item for item in found if item[0]), key=lambda item: (-item[0], item[1].name))
        return [each.row(schemas=False) for _, each in best[:_FOUND]]


def _words(each: Tool) -> frozenset[str]:
    return frozenset(_WORD.findall(f"{each.name} {each.description}".lower().replace("_", " ")))


Grant = Tools | Iterable[Tool | Callable[..., Any]] | Mapping[str, Callable[..., Any]]


def granted(tools: Grant | None) -> Tools | None:
    """What `Sandbox(tools=…)` means; None when nothing is granted."""
    if tools is None or isinstance(tools, Tools):
        return tools or None
    return Tools(tools) if tools else None


async def settled(answer: Any) -> Any:
    """What a hook says, whether it is a coroutine function or not."""
    return await answer if inspect.isawaitable(answer) else answer
