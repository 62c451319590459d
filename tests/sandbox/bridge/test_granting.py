"""Who decides on a call, what is told of it, and how a run is repeated from its log."""

import asyncio
import json
import queue
import threading
from typing import Any

import pytest

import groundbox as gb
from groundbox.errors import InvalidArgument
from groundbox.jail.cgroup import Cgroup
from groundbox.sandbox.bridge.log import Written
from groundbox.tools import Tool, ToolFailure, ToolLog, ToolQuotas, Tools


@pytest.fixture
def box():
    opened = []

    def make(tools, **options):
        opened.append(gb.Sandbox(**{"profile": "bare", "tools": tools, **options}))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


class Counter:
    """A tool that can be asked how often it was called, and with what."""

    def __init__(self, **options):
        self.calls = []
        self.tool = Tool("pay", self.pay, **options)

    def pay(self, amount: int) -> str:
        self.calls.append(amount)
        return f"paid {amount}"


TRY = """
import tools
def told(amount):
    try: return tools.pay(amount)
    except tools.ToolError as error: return error.type
"""


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_policy_allows_and_denies_by_tool_and_arguments(box, kind):
    seen, counter = [], Counter()

    def policy(request):
        seen.append((request.tool.name, dict(request.arguments), request.run, request.seq))
        return "allow" if request.arguments["amount"] < 100 else "deny"

    async def policy_later(request):
        await asyncio.sleep(0)
        return policy(request)

    sandbox = box(Tools([counter.tool], policy=policy if kind == "sync" else policy_later))

    execution = sandbox.run(f"{TRY}\ntold(5), told(500)")

    assert execution.text == "('paid 5', 'ToolDenied')"
    assert counter.calls == [5]
    assert seen == [("pay", {"amount": 5}, 1, 1), ("pay", {"amount": 500}, 1, 2)]
    assert execution.tool_calls.outcomes == {"ok": 1, "denied": 1}


@pytest.mark.parametrize("policy", [lambda request: 1 / 0, lambda request: "yes", lambda request: None, lambda r: True])
def test_a_policy_that_fails_or_says_something_else_is_a_no(box, policy):
    counter = Counter()

    execution = box(Tools([counter.tool], policy=policy)).run(f"{TRY}\ntold(5)")

    assert (execution.text, counter.calls) == ("'ToolDenied'", [])


@pytest.mark.parametrize("how", ["by the tool", "by the policy"])
@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize(("answer", "text"), [(True, "'paid 5'"), (False, "'ToolDenied'"), (1, "'ToolDenied'")])
def test_an_approval_is_waited_for(box, how, kind, answer, text):
    counter = Counter(approval=how == "by the tool")
    asked = []

    def approve(request):
        asked.append(request.arguments)
        return answer

    async def approve_later(request):
        return approve(request)

    policy = None if how == "by the tool" else lambda request: "ask"
    approval = approve if kind == "sync" else approve_later

    execution = box(Tools([counter.tool], policy=policy, approve=approval)).run(f"{TRY}\ntold(5)")

    assert (execution.text, asked) == (text, [{"amount": 5}])
    assert counter.calls == ([5] if answer is True else [])


def test_the_guest_is_frozen_while_a_person_thinks(box, monkeypatch):
    told: Any = []
    monkeypatch.setattr(Cgroup, "freeze", lambda self, frozen: told.append(frozen))
    tools = Tools([Counter(approval=True).tool], approve=lambda request: told.append("asked") or True)

    box(tools).run(f"{TRY}\ntold(5)")

    assert told == [True, "asked", False]


def test_a_policy_that_allows_does_not_lift_an_approval(box):
    counter = Counter(approval=True)

    execution = box(Tools([counter.tool], policy=lambda r: "allow", approve=lambda r: False)).run(f"{TRY}\ntold(5)")

    assert (execution.text, counter.calls) == ("'ToolDenied'", [])


def test_a_question_is_withdrawn_when_its_run_ends(box):
    counter, asked, told = Counter(approval=True), threading.Event(), queue.Queue()

    def approve(request):
        asked.set()
        told.put(request.withdrawn.wait(20))
        return True

    sandbox = box(Tools([counter.tool], approve=approve))
    interrupter = threading.Thread(target=lambda: asked.wait(20) and sandbox.interrupt())
    interrupter.start()

    execution = sandbox.run(f"{TRY}\ntold(5)", wall_s=20)
    interrupter.join()

    assert execution.outcome is gb.Outcome.CANCELLED
    assert told.get(timeout=30) is True
    assert counter.calls == []


def test_an_answer_that_comes_too_late_counts_for_nothing(box):
    counter = Counter(approval=True)

    async def approve(request):
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return True

    execution = box(Tools([counter.tool], approve=approve, approval_s=0.1)).run(f"{TRY}\ntold(5)")

    assert (execution.error.type, counter.calls) == ("ToolApprovalExpired", [])


def test_a_function_that_goes_on_asking_holds_back_the_next_question(box):
    counter, stuck, asked = Counter(approval=True), threading.Event(), []

    def approve(request):
        asked.append(request.seq)
        stuck.wait(20)
        return True

    sandbox = box(Tools([counter.tool], approve=approve, approval_s=0.2))

    first, second = (sandbox.run(f"{TRY}\ntold(5)") for _ in range(2))
    stuck.set()

    assert first.error.type == second.error.type == "ToolApprovalExpired"
    assert (asked, counter.calls) == ([1], [])


def test_an_approval_that_fails_is_a_no(box):
    counter = Counter(approval=True)

    execution = box(Tools([counter.tool], approve=lambda request: bool(1 / 0))).run(f"{TRY}\ntold(5)")

    assert (execution.text, counter.calls) == ("'ToolDenied'", [])


def test_the_wall_clock_stands_still_while_a_person_thinks(box):
    counter, thinking = Counter(approval=True), threading.Event()

    def approve(request):
        thinking.wait(1.5)
        return True

    tools = Tools([counter.tool], approve=approve, quotas=ToolQuotas(waiting_s=0.1))

    execution = box(tools, limits=gb.Limits(wall_s=1)).run(f"{TRY}\ntold(5)")

    assert execution.text == "'paid 5'"


@pytest.mark.parametrize("mode", ["cell", "script"])
@pytest.mark.parametrize("catches", ["", "try:\n    ", "swallow"])
def test_without_an_answer_in_time_the_run_ends_by_name(box, mode, catches):
    counter = Counter(approval=True)
    tools = Tools([counter.tool], approve=lambda request: asyncio.sleep(60), approval_s=0.1)
    call = {
        "": "tools.pay(5)",
        "try:\n    ": "try: tools.pay(5)\nexcept Exception: pass\nprint('went on')",
        "swallow": "while True:\n    try: tools.pay(5)\n    except BaseException: pass",
    }[catches]

    execution = box(tools).run(f"import tools\n{call}", mode=mode)

    assert execution.outcome is gb.Outcome.CANCELLED
    assert execution.error.type == "ToolApprovalExpired"
    assert execution.error.message == "nobody approved pay within 0.1 s"
    assert execution.tool_calls.outcomes["expired"] == 1
    assert ("went on" in execution.stdout, counter.calls) == (False, [])


def test_a_cell_that_waits_for_an_approval_ends_and_its_state_is_kept(box):
    counter = Counter(approval=True)
    sandbox = box([counter.tool])

    execution = sandbox.run("import tools\nkept = 1\ntools.pay(5)")

    assert (execution.outcome, execution.error.type) == (gb.Outcome.CANCELLED, "ToolApprovalPending")
    assert execution.error.message == "pay needs an approval that is not there yet"
    assert (execution.state, sandbox.run("kept").text) == ("kept", "1")


def test_a_run_that_ended_at_an_approval_goes_on_where_it_was(box):
    counter, log = Counter(), ToolLog()
    risky = Counter(approval=True)
    delete = Tool("delete", risky.pay, approval=True)
    program = "import tools\na = tools.pay(1)\nb = tools.delete(2)\nc = tools.pay(3)\n[a, b, c]"
    tools = Tools([counter.tool, delete], log=log)
    first = box(tools).run(program)

    again = tools.replay(log, approve=lambda request: True, log=ToolLog())
    second = box(again).run(program)

    assert first.error.type == "ToolApprovalPending"
    assert second.text == "['paid 1', 'paid 2', 'paid 3']"
    assert (counter.calls, risky.calls) == ([1, 3], [2])
    assert [call.replayed for call in second.tool_calls.calls] == [True, False, False]
    assert [row["outcome"] for row in again.log if row["outcome"] != "begun"] == ["ok", "ok", "ok"]


def test_a_row_is_written_for_each_call(box, tmp_path):
    counter = Counter()
    path = tmp_path / "tools.jsonl"
    sandbox = box(Tools([counter.tool], log=ToolLog(path)))

    sandbox.run(f"{TRY}\ntold(5), told('x')")
    sandbox.run("tools.nothing")
    sandbox.run("told(6)")

    rows = [json.loads(line) for line in path.read_text().splitlines()]
    told = [(row["seq"], row["run"], row["tool"], row["outcome"], row.get("args")) for row in rows]
    assert told == [
        (1, 1, "pay", "begun", {"amount": 5}),
        (1, 1, "pay", "ok", {"amount": 5}),
        (2, 1, "pay", "invalid", None),
        (3, 3, "pay", "begun", {"amount": 6}),
        (3, 3, "pay", "ok", {"amount": 6}),
    ]
    assert rows[1]["answer"] == {"value": "paid 5"}
    assert {"wall_s", "sent_bytes", "received_bytes", "args_sha256", "since"} <= rows[1].keys()
    assert path.stat().st_mode & 0o777 == 0o600
    assert [row["seq"] for row in ToolLog.read(path)] == [1, 1, 2, 3, 3]


def test_what_was_written_beside_the_loop_is_not_written_again(tmp_path):
    log = ToolLog(tmp_path / "log")

    log.add({"args": Written.ready({"a": 1}, b'{"a":"as it was"}'), "outcome": "é"})

    assert (tmp_path / "log").read_text() == '{"args":{"a":"as it was"},"outcome":"\\u00e9"}\n'


def without_amount(kind, content):
    """Changes what it was given, which nobody should, and nothing comes of it."""
    if kind == "args":
        del content["amount"]
    return content


@pytest.mark.parametrize("redact", [None, without_amount])
def test_what_a_file_has_of_a_call_is_what_memory_has(box, tmp_path, redact):
    logs = ToolLog(tmp_path / "log"), ToolLog()
    for log in logs:
        box(Tools([Counter().tool], log=log, redact=redact)).run(f"{TRY}\ntold(5)")

    named = "tool", "args", "args_sha256", "outcome", "answer"
    in_file, in_memory = ([{name: row.get(name) for name in named} for row in log] for log in logs)
    assert in_file == in_memory
    assert in_file[0]["args"] == ({} if redact else {"amount": 5})


def test_a_tool_that_changes_nothing_has_one_row(box):
    log = ToolLog()

    box(Tools([Counter(read_only=True).tool], log=log)).run(f"{TRY}\ntold(5)")

    assert [row["outcome"] for row in log] == ["ok"]


def test_a_log_that_cannot_be_written_ends_the_run_before_anything_is_done(box, tmp_path):
    counter = Counter()
    log = ToolLog(tmp_path / "no" / "folder")

    execution = box(Tools([counter.tool], log=log)).run(f"{TRY}\ntold(5)")

    assert (execution.outcome, execution.error.type) == (gb.Outcome.CANCELLED, "ToolLogFailed")
    assert counter.calls == []


def test_what_is_redacted_is_in_no_log_and_no_result(box):
    log = ToolLog()
    tools = Tools([Counter().tool], log=log, redact=lambda kind, content: f"({kind})")

    execution = box(tools).run(f"{TRY}\nprint(told(5))\ntold('secret')")

    assert execution.stdout == "paid 5\n"
    assert [(call.arguments, call.result) for call in execution.tool_calls.calls] == [
        ("(args)", "(value)"),
        ("{}", "(error)"),
    ]
    assert "paid" not in json.dumps(log.rows)
    assert "secret" not in json.dumps(log.rows)


def test_a_redaction_that_fails_shows_nothing(box):
    log = ToolLog()

    box(Tools([Counter().tool], log=log, redact=lambda kind, content: 1 / 0)).run(f"{TRY}\ntold(5)")

    assert "paid" not in json.dumps(log.rows)
    assert log.rows[-1]["args"] == "(not shown: redacting it failed)"


def recorded(box, program, tool):
    log = ToolLog()
    tools = Tools([tool], log=log)
    return box(tools).run(program), tools, log


@pytest.mark.parametrize("amounts", [[1, 2, 3], [1, 1, 1]])
def test_a_replay_answers_from_the_log_and_calls_nothing(box, amounts):
    counter = Counter()
    program = f"{TRY}\n[told(n) for n in {amounts}]"
    first, tools, log = recorded(box, program, counter.tool)

    second = box(tools.replay(log)).run(program)

    assert second.text == first.text
    assert counter.calls == amounts
    assert all(call.replayed for call in second.tool_calls.calls)


def test_a_replay_answers_failures_as_failures(box):
    def fail(n: int) -> None:
        raise ToolFailure(f"no {n}")

    program = "import tools\ntry: tools.fail(1)\nexcept tools.ToolError as error: print(error)"
    first, tools, log = recorded(box, program, Tool("fail", fail))

    assert box(tools.replay(log)).run(program).stdout == first.stdout == "fail: ToolFailure: no 1\n"


@pytest.mark.parametrize("other", ["told(2)", "tools.other(1)"])
def test_another_call_than_in_the_log_ends_the_run(box, other):
    counter = Counter()
    other_tool = Tool("other", lambda x: x, parameters={"type": "object", "properties": {"x": {}}})
    log = ToolLog()
    tools = Tools([counter.tool, other_tool], log=log)
    box(tools).run(f"{TRY}\ntold(1)")

    execution = box(tools.replay(log)).run(f"{TRY}\n{other}\nwhile True: pass")

    assert (execution.outcome, execution.error.type) == (gb.Outcome.CANCELLED, "ToolDiverged")
    assert "where pay comes next (seq 1)" in execution.error.message
    assert counter.calls == [1]


def test_calls_that_overlapped_may_change_places_in_a_replay(box):
    async def wait(n: int) -> int:
        await asyncio.sleep(0.02)
        return n

    program = "import tools, asyncio\nawait asyncio.gather(*[tools.aio.wait(n) for n in {}])"
    _, tools, log = recorded(box, program.format([1, 2, 3]), Tool("wait", wait))

    assert box(tools.replay(log)).run(program.format([3, 1, 2])).text == "[3, 1, 2]"


def test_calls_that_followed_each_other_may_not(box):
    counter = Counter()
    _, tools, log = recorded(box, f"{TRY}\ntold(1), told(2)", counter.tool)

    execution = box(tools.replay(log)).run(f"{TRY}\ntold(2), told(1)")

    assert execution.error.type == "ToolDiverged"


def test_a_replay_goes_on_live_after_the_log(box):
    counter = Counter()
    _, tools, log = recorded(box, f"{TRY}\ntold(1)", counter.tool)

    execution = box(tools.replay(log)).run(f"{TRY}\ntold(1), told(2)")

    assert (execution.text, counter.calls) == ("('paid 1', 'paid 2')", [1, 2])


def test_what_is_not_known_to_have_ended_is_not_done_again(box):
    """A log whose writer was killed while a tool ran."""
    counter = Counter()
    _, tools, log = recorded(box, f"{TRY}\ntold(1)", counter.tool)

    execution = box(tools.replay(log.rows[:1])).run(f"{TRY}\ntold(1)")

    assert execution.error.type == "ToolUncertain"
    assert counter.calls == [1]


def test_what_was_redacted_cannot_be_replayed(box):
    counter, log = Counter(), ToolLog()
    tools = Tools([counter.tool], log=log, redact=lambda kind, content: "…")
    box(tools).run(f"{TRY}\ntold(1)")

    assert box(tools.replay(log)).run(f"{TRY}\ntold(1)").error.type == "ToolUncertain"


def test_a_replay_is_of_one_sandbox(box):
    counter, log = Counter(), ToolLog()
    tools = Tools([counter.tool], log=log)
    first = box(tools).run(f"{TRY}\ntold(1)")
    box(tools).run(f"{TRY}\ntold(2)")

    with pytest.raises(InvalidArgument, match=r"the log has calls of 2 sandboxes; say which"):
        tools.replay(log)
    with pytest.raises(InvalidArgument, match=r"the log has calls of 2 sandboxes; say which"):
        Tools([counter.tool], replayed=log)
    with pytest.raises(InvalidArgument, match=r"the log has no calls of 'x'"):
        tools.replay(log, sandbox="x")
    again = tools.replay(log, sandbox=first.tool_calls.sandbox)

    assert box(again).run(f"{TRY}\ntold(1)").text == "'paid 1'"
    assert counter.calls == [1, 2]


def test_a_log_is_looked_at_before_it_is_replayed(tmp_path):
    path = tmp_path / "log"
    path.write_text('{"seq": 1}\n')

    with pytest.raises(InvalidArgument, match=r"log:1: no row of a log: sandbox is missing"):
        ToolLog.read(path)
