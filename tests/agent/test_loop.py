import asyncio

import pytest

from groundbox.agent.checks import Receipts
from groundbox.agent.events import Ended, Ending, Noticed, Observed, Started
from groundbox.agent.loop import converse
from groundbox.agent.messages import Call, Cost, Reply
from groundbox.agent.scripted import ScriptedModel
from groundbox.agent.turn import Bounds, Verdict
from groundbox.errors import InvalidArgument, SandboxBusy, SandboxLost, SandboxUnavailable
from groundbox.execution import Failure, Outcome, Warning


def code(source, language="python"):
    return Reply(calls=[Call(name="run_code", arguments={"code": source, "language": language}, call_id="c")])


FAILED = {"outcome": Outcome.ERROR, "error": Failure(type="ValueError", message="no", line=1)}


def tried(*sources):
    return Reply(calls=[Call(name="try_programs", arguments={"programs": list(sources)}, call_id="t")])


def kept(run):
    return Reply(calls=[Call(name="keep_run", arguments={"run": run}, call_id="k")])


def talk(box, *replies, model=None, **options):
    """All events of a conversation."""

    async def collect():
        return [event async for event in converse("How many?", model=model, box=box, **options)]

    model = model or ScriptedModel(replies)
    return asyncio.run(collect())


def kinds(events):
    return [event.kind if isinstance(event, Noticed) else type(event).__name__ for event in events]


class Finding:
    """Checks that find something in programs with a word, and in answers with a number that was not printed."""

    def __init__(self, word="", tier="error"):
        self.word, self.tier = word, tier

    def run_options(self, language):
        return {}

    async def of_run(self, ran, question):
        found = self.word and self.word in ran.source
        return [Warning(code="check.word", tier=self.tier, message="it is wrong", hint="mend it")] if found else []

    async def of_answer(self, text, runs, question):
        printed = " ".join(ran.execution.stdout for ran in runs)
        missing = [word for word in text.split() if word.isdigit() and word not in printed]
        found = [Warning(code="answer.no_receipt", tier="error", message=word) for word in missing]
        return Receipts(unsupported=found, report={"ok": not found})


def test_a_program_is_run_and_its_result_is_answered(made):
    model = ScriptedModel([code("print(42)"), "There are 42 ."])

    events = talk(made.box(made.execution(stdout="42\n")), model=model, checks=Finding())

    assert kinds(events) == ["Replied", "Started", "Observed", "Replied", "Ended"]
    assert events[-1].ending is Ending.ANSWERED
    assert events[-1].answer == "There are 42 ."
    assert events[-1].unsupported == []
    observation = model.asked[1][-1]
    assert (observation.role, observation.call_id) == ("tool", "c")
    assert "\n42\n" in observation.text


def test_a_failure_goes_back_with_its_hints_and_is_mended(made):
    box = made.box(made.execution(error="KeyError: 'x'"), made.execution(stdout="42"))

    events = talk(box, code("d['x']"), code("d['y']"), "42")

    decisions = [event.decision.verdict for event in events if isinstance(event, Observed)]
    assert decisions == [Verdict.RETRY, Verdict.ACCEPT]
    assert events[-1].ending is Ending.ANSWERED
    assert events[-1].spent.retries == 0


def test_a_finding_sends_a_success_back(made):
    events = talk(made.box(made.execution(stdout="84"), made.execution(stdout="42")), code("merge"), code("good"), "42",
                  checks=Finding("merge"))  # fmt: skip

    first = next(event for event in events if isinstance(event, Observed))
    assert first.decision.verdict is Verdict.RETRY
    assert "error check.word: it is wrong\n    hint: mend it" in first.observation.text
    assert events[-1].answer == "42"


def test_claims_without_receipt_are_asked_about_once_and_then_named(made):
    box = made.box(made.execution(stdout="42"))

    mended = talk(box, code("x"), "It is 43", "It is 42", checks=Finding())
    stubborn = talk(box, code("x"), "It is 43", "It is 44", checks=Finding())

    assert kinds(mended)[-4:] == ["Replied", "mend", "Replied", "Ended"]
    assert (mended[-1].answer, list(mended[-1].unsupported)) == ("It is 42", [])
    assert stubborn[-1].answer == "It is 44"
    assert [each.message for each in stubborn[-1].unsupported] == ["44"]


class Endless:
    """A model that always says the same."""

    name = "endless"

    def __init__(self, reply):
        self.reply = reply
        self.count = 0

    async def complete(self, messages, *, tools):
        self.count += 1
        return self.reply


@pytest.mark.parametrize(
    ("reply", "result", "why"),
    [
        (Reply(), {}, "max_malformed=3"),
        (Reply(calls=[Call(name="run_code", arguments="{")]), {}, "max_malformed=3"),
        (Reply(calls=[Call(name="browse", arguments="{}")]), {}, "max_malformed=3"),
        (code(" "), {}, "max_malformed=3"),
        (code("f()"), {"error": "NameError: f"}, "max_same_failure=4"),
        (code("1"), {"stdout": "x\n" * 100_000}, "max_turns=9"),
        (Reply(calls=[Call(name="read_output", arguments='{"handle": "1.stdout"}')]), {}, "max_turns=9"),
        (Reply(calls=code("1").calls * 100), {"stdout": "x"}, "max_runs=24"),
    ],
)
def test_whatever_a_model_does_it_ends_and_says_why(made, reply, result, why):
    model = Endless(reply)

    events = talk(made.box(made.execution(**result)), model=model, bounds=Bounds(max_turns=9))

    assert events[-1].ending is Ending.BOUND
    assert why in events[-1].why
    assert events[-1].answer is None
    assert model.count <= 9


def test_failures_that_differ_end_at_the_retries(made):
    box = made.box(*[made.execution(error=f"E{i}: m") for i in range(9)])

    events = talk(box, *[code(f"p{i}") for i in range(9)])

    assert "max_retries=4" in events[-1].why
    assert len(box.ran) == 4


def test_programs_over_the_number_are_not_run(made):
    box = made.box(made.execution(stdout="1"))

    events = talk(box, model=Endless(code("1")), bounds=Bounds(max_runs=2))

    assert len(box.ran) == 2
    assert "no more are allowed" in next(event.text for event in events if isinstance(event, Noticed))
    assert "max_runs=2" in events[-1].why


def test_tokens_and_time_are_bounds(made):
    box = made.box(made.execution(stdout="1"))
    counted = Reply(calls=code("1").calls, cost=Cost(input_tokens=600, output_tokens=10, dollars=0.25))
    ticks = iter(range(0, 10_000, 7))

    spent = talk(box, model=Endless(counted), bounds=Bounds(max_tokens=1000))
    slow = talk(box, model=Endless(code("1")), bounds=Bounds(wall_s=60.0), clock=lambda: float(next(ticks)))

    assert "1220 tokens are used up (max_tokens=1000)" in spent[-1].why
    assert spent[-1].dollars == 0.5
    assert "wall_s=60" in slow[-1].why


def test_a_model_that_does_not_answer_is_waited_for_no_longer_than_the_time(made):
    class Asleep:
        name = "asleep"

        async def complete(self, messages, *, tools):
            await asyncio.Event().wait()

    events = talk(made.box(), model=Asleep(), bounds=Bounds(wall_s=0.05))

    assert events[-1].ending is Ending.BOUND
    assert "wall_s=0.05" in events[-1].why


def test_a_model_that_has_no_more_to_say_ends_it(made):
    events = talk(made.box(made.execution()), code("1"))

    assert events[-1].ending is Ending.MODEL
    assert "all of its 1 replies" in events[-1].why


def test_a_process_that_is_gone_is_started_afresh_and_the_model_is_told(made):
    gone = made.execution(error="Timeout: x", outcome=Outcome.TIMEOUT, state="lost")
    box = made.box(gone, made.execution(stdout="42"))

    events = talk(box, code("while True: pass"), code("print(42)"), "42")

    second = [event for event in events if isinstance(event, Observed)][1]
    assert box.restarts == 1
    assert "started afresh before this run: variables of earlier runs are gone" in second.observation.text
    assert events[-1].ending is Ending.ANSWERED


def test_a_process_that_was_found_gone_is_told_too(made):
    box = made.box(SandboxLost("a run was cancelled"), made.execution(stdout="42"))

    events = talk(box, code("1"), code("2"), "42")

    assert kinds(events) == ["Replied", "Started", "restart", "Replied", "Started", "Observed", "Replied", "Ended"]


def test_a_process_that_always_goes_ends_it(made):
    gone = made.execution(error="S: x", state="lost")

    events = talk(made.box(gone), *[code(f"{i}") for i in range(9)], bounds=Bounds(max_same_failure=20, max_retries=20))

    assert "max_restarts=2" in events[-1].why


def test_a_sandbox_that_cannot_stand_ends_it(made):
    events = talk(made.box(SandboxUnavailable(["cgroup: none"])), code("1"), "42")

    assert events[-1].ending is Ending.SANDBOX
    assert "cgroup: none" in events[-1].why


def test_an_argument_that_cannot_be_meant_goes_to_the_model(made):
    box = made.box(InvalidArgument("database", "'shop' is not known"), made.execution(stdout="1"))

    events = talk(box, code("SELECT 1", "sql"), code("1"), "1")

    assert "'shop' is not known" in next(event.text for event in events if isinstance(event, Noticed))
    assert events[-1].ending is Ending.ANSWERED


def test_prose_in_place_of_code_is_answered_once(made):
    box = made.box(made.execution(stdout="42"))

    events = talk(box, "I will load the file.", "```python\nprint(42)\n```", "It is 42, by\n```python\nprint(42)\n```")

    assert kinds(events) == ["Replied", "promise", "Replied", "Started", "Observed", "Replied", "Ended"]
    assert [event.language for event in events if isinstance(event, Started)] == ["python"]


def test_a_marked_answer_is_taken_whatever_it_says(made):
    events = talk(made.box(), "Answer: I will not look, because no file was given.")

    assert events[-1].answer == "I will not look, because no file was given."


def test_the_time_that_is_left_bounds_a_run(made):
    box = made.box(made.execution(stdout="1"))

    talk(box, code("1"), "1", bounds=Bounds(wall_s=50.0), clock=lambda: 0.0)

    assert box.ran[0][2] == {"wall_s": 50.0}


def test_the_last_event_has_every_run(made):
    events = talk(made.box(made.execution(stdout="1")), code("1"), code("2"), "1")

    assert isinstance(events[-1], Ended)
    assert [execution.stdout for execution in events[-1].executions] == ["1", "1"]


def test_programs_run_side_by_side_and_the_next_one_runs_where_one_of_them_did(made):
    one, two = made.copied(made.execution(stdout="1\n")), made.copied(made.execution(stdout="2\n"))
    first = made.copied(copies=[one, two])
    model = ScriptedModel([tried("a", "b"), kept(2), code("c"), "2"])

    events = talk(first, model=model, branches=2)

    assert kinds(events)[:5] == ["Replied", "Started", "Started", "Observed", "Observed"]
    assert [(each.run, each.beside) for each in events if isinstance(each, Observed)] == [
        (1, (1, 2)),
        (2, (1, 2)),
        (3, ()),
    ]
    assert [(each.kind, each.run) for each in events if isinstance(each, Noticed)] == [("kept", 2)]
    assert [source for _, source, _ in two.ran] == ["b", "c"]
    assert (first.ran, [source for _, source, _ in one.ran]) == ([], ["a"])
    told = model.asked[1][-1]
    assert told.call_id == "t"
    assert told.text.startswith("Runs 1, 2 each ran on a copy; variables and files here are as before them. ")
    assert "run 1 (python): ok" in told.text
    assert "run 2 (python): ok" in told.text


def test_copies_are_closed_when_they_are_needed_no_more_and_the_sandbox_that_was_given_is_not(made):
    boxes = [made.copied(made.execution()) for _ in range(4)]
    boxes[1].copies = boxes[2:]
    first = made.copied(made.execution(), copies=boxes[:2])

    talk(first, tried("a", "b"), kept(2), tried("c", "d"), "done", branches=2)

    assert [each.closed for each in boxes] == [1, 1, 1, 1]
    assert first.closed == 0


def test_what_is_not_kept_leaves_the_state_as_it_was(made):
    copies = [made.copied(made.execution()) for _ in range(2)]
    first = made.copied(made.execution(), copies=copies)

    talk(first, tried("a", "b"), code("c"), "done", branches=2)

    assert [source for _, source, _ in first.ran] == ["c"]
    assert [each.closed for each in copies] == [1, 1]


def test_a_run_of_which_there_is_no_copy_is_named_with_those_that_there_are(made):
    first = made.copied(made.execution(), copies=[made.copied(made.execution()) for _ in range(2)])
    model = ScriptedModel([code("a"), kept(1), tried("b", "c"), kept(1), "done"])

    talk(first, model=model, branches=2)

    assert "There is no copy that run 1 has left. Those there are: none." in model.asked[2][-1].text
    assert "There is no copy that run 1 has left. Those there are: 2, 3." in model.asked[4][-1].text


def test_a_state_that_cannot_be_copied_is_told_and_the_conversation_goes_on(made):
    first = made.copied(made.execution(), copies=[SandboxBusy("a thread runs")])
    model = ScriptedModel([tried("a", "b"), code("a"), "done"])

    events = talk(first, model=model, branches=2)

    busy = "Not run: this sandbox cannot be copied now: a thread runs. Run the programs one after the other."
    assert busy in model.asked[1][-1].text
    assert events[-1].ending is Ending.ANSWERED


def test_a_copy_that_is_lost_takes_nothing_with_it(made):
    copies = [made.copied(made.execution()), made.copied(SandboxLost("memory was used up"))]
    first = made.copied(made.execution(), copies=copies)
    model = ScriptedModel([tried("a", "b"), code("a"), "done"])

    events = talk(first, model=model, branches=2)

    assert "Run the programs one after the other." in model.asked[1][-1].text
    assert (events[-1].ending, events[-1].spent.restarts, first.restarts) == (Ending.ANSWERED, 0, 0)
    assert [each.closed for each in copies] == [1, 1]


def test_attempts_side_by_side_count_as_one_and_as_runs_each(made):
    copies = [made.copied(made.execution(**FAILED)) for _ in range(3)]
    first = made.copied(made.execution(), copies=copies)

    events = talk(first, tried("x", "x ", "x  "), "done", branches=3, bounds=Bounds(max_same_failure=2))

    assert (events[-1].ending, events[-1].spent.runs, events[-1].spent.retries) == (Ending.ANSWERED, 3, 1)


def test_one_that_goes_well_ends_the_row_of_failures(made):
    copies = [made.copied(made.execution(**FAILED)), made.copied(made.execution())]
    first = made.copied(made.execution(**FAILED), copies=copies)

    events = talk(first, code("x"), tried("x", "y"), "done", branches=2, bounds=Bounds(max_same_failure=2))

    assert (events[-1].ending, events[-1].spent.retries) == (Ending.ANSWERED, 0)


def test_more_programs_than_may_be_run_are_not_begun(made):
    first = made.copied(made.execution())
    model = ScriptedModel([tried("a", "b"), "done"])

    events = talk(first, model=model, branches=2, bounds=Bounds(max_runs=1))

    assert "Started" not in kinds(events)
    assert "Not run: 2 programs, and 1 more are allowed." in model.asked[1][-1].text


def test_a_copy_that_fails_by_our_fault_ends_the_conversation_and_leaves_none(made):
    copies = [made.copied(made.execution()), made.copied(SandboxUnavailable("no room"))]
    first = made.copied(made.execution(), copies=copies)

    events = talk(first, tried("a", "b"), branches=2)

    assert events[-1].ending is Ending.SANDBOX
    assert [each.closed for each in copies] == [1, 1]
