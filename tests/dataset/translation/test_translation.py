"""A model's narrations: asked for, stripped, proven, repaired once, and paid for once."""

import asyncio
import contextlib
import dataclasses
import gzip
import itertools
import json
import re
import time
from typing import Any

import pytest
from endpoint_fakes import completion, endless, serving

from groundbox.dataset.model_telling import Telling
from groundbox.dataset.translation.answer_cache import Cache, Reply
from groundbox.dataset.translation.endpoint import Endpoint
from groundbox.dataset.translation.prompts import KINDS, Shown, reading_schema, repair, request, schema
from groundbox.dataset.translation.translator import MOST_REPAIRED_CHARS, translate
from groundbox.endpoint import answer as answers
from groundbox.endpoint.answer import MOST_BYTES, TOO_LARGE, without_thinking
from groundbox.endpoint.chat import EndpointFailed, FormatRefused, RequestRefused
from groundbox.trace.claims import json_schema

SHOWN = Shown(
    statement="Double a number.",
    source="def double(n):\n    return 2 * n",
    arguments="double({3})",
    result="So double returns 6.",
    trace="def double(n):  # n = 3\n    return 2 * n  # returns 6",
)


@dataclasses.dataclass
class Verdict:
    faithful: bool
    failed: list
    sentences: tuple = ()
    refuted: int = 0


class Script:
    """A model that says what is written, and remembers what it was asked. An exception is raised instead."""

    def __init__(self, *texts, finish="stop"):
        self.texts, self.finish, self.asked, self.schemas = list(texts), finish, [], []

    async def answer(self, messages, *, schema=None):
        self.asked.append([dict(message) for message in messages])
        self.schemas.append(schema)
        said = self.texts.pop(0)
        if isinstance(said, Exception):
            raise said
        return Reply(text=said, finish=self.finish, prompt_tokens=10, completion_tokens=5)


class Judge:
    """Takes what says 6, and mends what says 7 and more by taking the 7 out."""

    failed: tuple[str, ...] = ("Sentence 1: it is 6.",)

    def trimmed(self, telling):
        return telling

    def accepts(self, proved):
        return proved.faithful

    async def prove(self, telling):
        right = "6" in telling.text and "7" not in telling.text
        return Verdict(right, [] if right else list(self.failed), ((0, len(telling.text)),))

    async def mend(self, telling):
        if "6" not in telling.text:
            return None
        left = dataclasses.replace(telling, text=telling.text.replace("7", ""), left_out=("7",))
        return left, Verdict(True, [])


def translated(model, style="grounded", tells="prose", judge=None):
    fake: Any = judge or Judge()
    return asyncio.run(translate(model, SHOWN, fake, style=style, tells=tells))


@pytest.mark.parametrize("with_claims", [False, True])
@pytest.mark.parametrize("style", ["grounded", "paper"])
def test_the_request_shows_all_that_is_needed_and_leaves_no_blank(style, with_claims):
    text = request(SHOWN, style, with_claims=with_claims)

    assert all(part in text for part in (SHOWN.statement, SHOWN.source, SHOWN.arguments, SHOWN.trace))
    blanks = ("statement", "source", "result", "arguments", "trace", "form", "kinds", "example")
    assert not [word for word in blanks if f"{{{word}}}" in text]
    assert ('"claims"' in text) is with_claims


def test_a_narration_that_is_proven_at_once_is_not_asked_for_again():
    model = Script("<think>2 times 3 …</think>\n\nSo double returns 6.")

    done = translated(model)

    assert (done.telling, done.ok, done.repaired) == (Telling(text="So double returns 6."), True, False)
    assert (len(model.asked), model.schemas) == (1, [None])


def test_a_narration_in_a_fence_is_taken_out_of_it():
    done = translated(Script("<think>x</think>```text\nSo double\nreturns 6.\n```"))

    assert done.telling == Telling(text="So double\nreturns 6.")


def test_a_narration_that_fails_is_repaired_once_with_what_is_wrong():
    model = Script("So double returns 7.", "So double returns 6.")

    done = translated(model)

    assert (done.telling.text, done.ok, done.repaired) == ("So double returns 6.", True, True)
    assert model.asked[1][1:] == [
        {"role": "assistant", "content": "So double returns 7."},
        {"role": "user", "content": repair(["Sentence 1: it is 6."], with_claims=False)},
    ]


def test_a_narration_that_is_too_long_is_not_sent_back_to_be_repaired():
    longest, longer = Script("7" * MOST_REPAIRED_CHARS, "6"), Script("7" * (MOST_REPAIRED_CHARS + 1), "6")

    done, left = translated(longest), translated(longer)

    assert (done.ok, done.repaired, len(longest.asked)) == (True, True, 2)
    assert (left.reason, left.repaired, len(longer.asked)) == ("unproven-claims", False, 1)


def test_a_second_failure_is_the_last():
    model = Script("7", "7 again")

    done = translated(model)

    assert (done.reason, done.repaired, len(model.asked)) == ("unproven-claims", True, 2)


@pytest.mark.parametrize("second", ["7 and 6", "", "7", RequestRefused("too long")])
def test_what_still_fails_is_left_out_of_the_second_attempt_or_else_of_the_first(second):
    model = Script("6 and 7", second)

    done = translated(model)

    assert (done.ok, done.repaired, len(model.asked)) == (True, True, 2)
    assert done.telling == Telling(text=" and 6" if second == "7 and 6" else "6 and ", left_out=("7",))


@pytest.mark.parametrize(
    ("text", "finish", "reason"),
    [
        ("So double returns 6", "length", "cut-short"),
        ("<think>2 times", "length", "unfinished-thinking"),
        ("<think>6</think>", "stop", "empty"),
        ("", TOO_LARGE, "answer-too-large"),
    ],
)
def test_what_is_no_narration_is_named_and_not_proven(text, finish, reason):
    done = translated(Script(text, finish=finish))

    assert (done.reason, done.verdict) == (reason, None)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("a", "a"),
        ("<think>x</think>a", "a"),
        ("x</think>\na", "a"),
        ("<THINK>x\n</THINK>a<think>y</think>b", "ab"),
        ("<think>x", None),
        ("<think>x</think>a<think>y", None),
        ("<think>x<think>y</think>z</think>a", "a"),
        ("<think>x<reasoning>y</think>z</reasoning>a", "a"),
        ("<reasoning><think>x</reasoning>a", "a"),
        ("<THINK>x", "<THINK>x"),
        ("1 < 2 and 3 > 2", "1 < 2 and 3 > 2"),
    ],
)
def test_thinking_is_stripped(text, left):
    assert without_thinking(text) == left


def test_thinking_is_taken_out_like_by_a_search_for_the_end_from_each_tag(monkeypatch):
    pieces = ("<think>", "</think>", "<Reasoning>", "</reasoning>", "a")
    texts = ["".join(parts) for count in range(7) for parts in itertools.product(pieces, repeat=count)]

    found = [without_thinking(text) for text in texts]

    slow = re.compile(r"<(think|thinking|reasoning)>.*?</\1>", re.DOTALL | re.IGNORECASE)
    monkeypatch.setattr(answers, "_outside", lambda text: [slow.sub("", text)])
    assert found == [without_thinking(text) for text in texts]


def test_tags_that_nothing_ends_take_time_like_their_number():
    def seconds(count):
        started = time.process_time()
        without_thinking("<think>" * count)
        return time.process_time() - started

    few, many = (min(seconds(count) for _ in range(3)) for count in (500, 8_000))

    assert many < 100 * few  # 16 times as many; the square would be 256


@contextlib.contextmanager
def server(*answers):
    """An endpoint that gives these (status, headers, body) in turn; yields its URL and what it was asked."""
    left = list(answers)
    with serving(lambda body, key: left.pop(0) if len(left) > 1 else left[0]) as (url, asked):
        yield url, asked


def ask(url, *texts, schema=None, **options):
    async def all_of():
        async with Endpoint(url, "m", **{"pause_s": 0.0, **options}) as endpoint:
            questions = [[{"role": "user", "content": text}] for text in texts]
            asked = [endpoint.answer(question, schema=schema) for question in questions]
            return await asyncio.gather(*asked, return_exceptions=True)

    return asyncio.run(all_of())


def test_a_request_has_the_model_its_options_and_the_key():
    with server(completion("hello")) as (url, asked):
        replies = ask(url, "hi", api_key="k", options={"temperature": 0.6})

    assert replies == [Reply(text="hello", finish="stop", prompt_tokens=7, completion_tokens=3)]
    messages = [{"role": "user", "content": "hi"}]
    assert asked == [("/v1/chat/completions", "Bearer k", {"model": "m", "temperature": 0.6, "messages": messages})]


def test_a_busy_endpoint_is_asked_again_and_a_refusal_is_not():
    busy = (429, {"retry-after": "0"}, {"error": "slow down"})
    with server(busy, (503, {}, b"no"), completion("now")) as (url, asked):
        replies = ask(url, "hi")
    assert ([reply.text for reply in replies], len(asked)) == (["now"], 3)

    with server((401, {}, {"error": "no such key"})) as (url, asked):
        (refused,) = ask(url, "hi")
    assert isinstance(refused, EndpointFailed)
    assert str(refused) == (
        f"{url}/chat/completions: status 401: no such key; "
        "the key is wrong or missing; name the variable that holds it with --api-key-env"
    )
    assert len(asked) == 1


def test_attempts_end_and_the_last_problem_is_told():
    with server((500, {}, b"broken")) as (url, asked):
        (failed,) = ask(url, "hi", attempts=3)

    assert str(failed) == f"{url}/chat/completions: no answer in 3 attempts, the last time: status 500: broken"
    assert len(asked) == 3


@pytest.mark.parametrize("answer", [b"<html>", {"choices": []}, {"choices": [{}]}, []])
def test_what_is_no_completion_is_refused(answer):
    with server((200, {}, answer)) as (url, _):
        (failed,) = ask(url, "hi")

    assert isinstance(failed, EndpointFailed)
    assert str(failed).startswith(f"{url}/chat/completions: this is no chat completion: ")


@pytest.mark.parametrize(
    "answer",
    [
        (200, {}, b"<p>Bearer secret-key</p>"),
        (200, {"content-encoding": "secret-key"}, b"{}x"),
        (401, {}, b"Bearer secret-key"),
        (500, {}, b"Bearer secret-key"),
    ],
)
def test_no_message_repeats_the_key(answer):
    with server(answer) as (url, asked):
        (failed,) = ask(url, "hi", api_key="secret-key", attempts=2)

    assert asked[0][1] == "Bearer secret-key"
    assert isinstance(failed, EndpointFailed)
    assert "…" in str(failed)
    assert "secret-key" not in str(failed)


def sized(size):
    """A completion whose body has so many bytes."""
    spare = size - len(json.dumps(completion("")[2]))
    return completion("x" * spare)


def test_an_answer_is_read_up_to_a_size_and_one_above_is_dropped_and_not_asked_for_again(tmp_path):
    with server(sized(MOST_BYTES)) as (url, _):
        (largest,) = ask(url, "a", cache=tmp_path / "answers.jsonl")
    with server(sized(MOST_BYTES + 1)) as (url, asked):
        (first,) = ask(url, "b", cache=tmp_path / "answers.jsonl")
        (again,) = ask(url, "b", cache=tmp_path / "answers.jsonl")

    assert len(largest.text) > MOST_BYTES - 500
    assert first == Reply(text="", finish=TOO_LARGE, prompt_tokens=0, completion_tokens=0)
    assert (again, len(asked)) == (dataclasses.replace(first, cached=True), 1)


def test_an_answer_without_end_is_not_waited_for():
    with endless() as (url, left):
        (reply,) = ask(url, "a")

        assert reply.finish == TOO_LARGE
        assert left.wait(30)


def test_a_complaint_without_end_is_told_from_its_beginning():
    with endless(status=400) as (url, left):
        (failed,) = ask(url, "a")

        assert str(failed) == f"{url}/chat/completions: status 400: {'x' * 500}"
        assert left.wait(30)


def test_compressed_answers_are_not_asked_for_and_not_unpacked():
    bomb = gzip.compress(bytes(10 * MOST_BYTES))
    with server((200, {"content-encoding": "gzip"}, bomb)) as (url, _):
        (failed,) = ask(url, "a")

    assert "this is no chat completion: gzip data, which were not asked for; the URL" in str(failed)


def told(finish, usage):
    choice = {"message": {"content": "a"}, "finish_reason": finish}
    return 200, {}, {"choices": [choice], "usage": usage}


def test_why_an_answer_ended_is_kept_as_a_short_text(tmp_path):
    with server(told("\ud800", {}), told("y" * 101, {}), told(None, {})) as (url, _):
        replies = [ask(url, text, cache=tmp_path / "answers.jsonl")[0] for text in "abc"]

    assert [reply.finish for reply in replies] == ["\\ud800", "y" * 100, "stop"]
    assert len(Cache(tmp_path / "answers.jsonl")) == 3


@pytest.mark.parametrize(
    ("count", "kept"),
    [
        (2**53, 2**53),
        (2**53 + 1, 0),
        (-1, 0),
        pytest.param(10**4200, 0, id="4201 digits"),
        (7.0, 7),
        (float("inf"), 0),
        (float("nan"), 0),
        ("7", 0),
    ],
)
def test_counts_of_tokens_that_cannot_be_are_none(count, kept):
    with server(told("stop", {"prompt_tokens": count, "completion_tokens": count})) as (url, _):
        (reply,) = ask(url, "a")

    assert (reply.prompt_tokens, reply.completion_tokens) == (kept, kept)


def test_answers_are_paid_for_once_also_after_a_kill_in_the_middle_of_a_line(tmp_path):
    cache = tmp_path / "answers.jsonl"
    with server(completion("one")) as (url, asked):
        first = ask(url, "a", "b", cache=cache)
        whole = cache.read_bytes()
        cache.write_bytes(whole[:-20])
        second = ask(url, "a", "b", cache=cache)
        third = ask(url, "a", "b", cache=cache)

    assert [reply.cached for reply in first] == [False, False]
    assert sorted(reply.cached for reply in second) == [False, True]
    assert [reply.cached for reply in third] == [True, True]
    assert (len(asked), len(Cache(cache))) == (3, 2)


def test_another_temperature_is_another_question(tmp_path):
    cache = tmp_path / "answers.jsonl"
    with server(completion("one")) as (url, asked):
        ask(url, "a", cache=cache, options={"temperature": 0.1})
        ask(url, "a", cache=cache, options={"temperature": 0.2})

    assert len(asked) == 2


def test_half_of_a_character_is_sent_and_kept_as_text(tmp_path):
    with server(completion("a\ud83d")) as (url, asked):
        first = ask(url, "b\udc00", cache=tmp_path / "answers.jsonl")
        second = ask(url, "b\udc00", cache=tmp_path / "answers.jsonl")

    assert [reply.text for reply in (*first, *second)] == ["a\\ud83d", "a\\ud83d"]
    assert [body["messages"][0]["content"] for _, _, body in asked] == ["b\\udc00"]


def test_an_answer_is_known_again_behind_another_address(tmp_path):
    with server(completion("one")) as (url, _):
        ask(url, "a", cache=tmp_path / "answers.jsonl")
    with server(completion("two")) as (url, asked):
        (reply,) = ask(url, "a", cache=tmp_path / "answers.jsonl")

    assert (reply.text, reply.cached, asked) == ("one", True, [])


def test_a_refused_request_is_told_from_an_endpoint_that_refuses_all():
    refused = (400, {}, {"error": "too long"})
    with server(refused, completion("yes"), refused) as (url, asked):
        (one,) = ask(url, "long")
        greeting = asked[1][2]["messages"]
    with server(refused) as (url, _):
        (all_of_them,) = ask(url, "long")

    assert (type(one), type(all_of_them)) == (RequestRefused, EndpointFailed)
    assert greeting == [{"role": "user", "content": "Say yes."}]
    assert "too long" in str(all_of_them)


SCHEMA = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}


def test_json_of_a_schema_is_asked_for_by_the_parameter_that_servers_enforce():
    with server(completion('{"x": 1}')) as (url, asked):
        (reply,) = ask(url, "hi", schema=SCHEMA)

    assert reply.text == '{"x": 1}'
    assert asked[0][2]["response_format"] == {
        "type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": SCHEMA},
    }  # fmt: skip


def plain_only(body, key):
    """An endpoint that knows no schemas."""
    if "response_format" in body:
        return 400, {}, {"error": "response_format is not known"}
    return completion("words")


def test_an_endpoint_that_knows_no_schemas_is_found_out_once_and_told():
    told = []

    async def both(url):
        async with Endpoint(url, "m", pause_s=0.0, told=told.append) as endpoint:
            for text in "ab":
                with pytest.raises(FormatRefused, match="response_format is not known"):
                    await endpoint.answer([{"role": "user", "content": text}], schema=SCHEMA)
            return await endpoint.answer([{"role": "user", "content": "c"}])

    with serving(plain_only) as (url, asked):
        reply = asyncio.run(both(url))

    assert [(body["messages"][0]["content"], "response_format" in body) for _, _, body in asked] == [
        ("a", True), ("Say yes.", True), ("Say yes.", False), ("c", False),
    ]  # fmt: skip
    assert (reply.text, len(told)) == ("words", 1)
    assert "it refuses JSON of a schema (response_format), so prose is asked for" in told[0]


def test_a_request_that_is_too_long_is_not_taken_for_a_refused_schema():
    def answer(body, key):
        too_long = body["messages"][0]["content"] == "long"
        return (400, {}, {"error": "context length"}) if too_long else completion("{}")

    with serving(answer) as (url, asked):
        (refused,) = ask(url, "long", schema=SCHEMA)
    with server((400, {}, {"error": "nothing"})) as (url, _):
        (failed,) = ask(url, "a", schema=SCHEMA)

    assert (type(refused), type(failed)) == (RequestRefused, EndpointFailed)
    assert len(asked) == 2


def test_a_pause_that_the_endpoint_names_is_kept():
    busy = (429, {"retry-after": "0"}, {"error": "slow down"})
    with server(busy, completion("now")) as (url, _):
        (reply,) = ask(url, "hi", pause_s=1e9)

    assert reply.text == "now"


def test_a_text_without_claims_is_asked_for_again_in_other_words():
    model = Script("Let me think.", "So double returns 6.")

    class Silent(Judge):
        failed = ()

    done = translated(model, judge=Silent())

    assert (done.ok, done.repaired) == (True, True)
    assert model.asked[1][2]["content"].startswith("Too little of this says what the program did")


def sentences(*texts):
    return json.dumps({"sentences": [{"text": text, "claims": []} for text in texts]})


def test_sentences_with_claims_are_asked_for_by_their_schema():
    model = Script(sentences("a 6", "b"))

    done = translated(model, tells="claims")

    assert model.schemas == [schema()]
    assert done.telling.text == "a 6. b."
    assert json.loads(done.telling.claims)["sentences"] == [
        {"text": "a 6.", "claims": []},
        {"text": "b.", "claims": []},
    ]
    assert (done.ok, done.fell_back, done.in_words) == (True, False, False)


def test_the_schema_is_strict_and_has_what_is_found_without_records():
    published = json_schema()["$defs"]["claim"]["properties"]["kind"]["enum"]
    claims = schema()["properties"]["sentences"]["items"]["properties"]["claims"]

    def objects(part):
        if isinstance(part, dict):
            yield from [part] if part.get("type") == "object" else []
            for each in part.values():
                yield from objects(each)

    assert set(KINDS) <= set(published)
    assert claims["items"]["properties"]["kind"]["enum"] == [kind for kind in published if kind in KINDS]
    for each in (*objects(schema()), *objects(reading_schema())):
        assert (each["required"], each["additionalProperties"]) == (list(each["properties"]), False)


def test_an_endpoint_that_refuses_schemas_is_asked_for_prose_and_it_is_counted():
    model = Script(FormatRefused("no response_format"), "So it is 6.")

    done = translated(model, tells="claims")

    assert (done.telling, done.ok, done.fell_back) == (Telling(text="So it is 6."), True, True)
    assert [each is None for each in model.schemas] == [False, True]
    assert "JSON" not in model.asked[1][0]["content"]


def test_a_model_that_answers_in_words_is_taken_by_its_words_and_it_is_counted():
    done = translated(Script("So it is 6."), tells="claims")

    assert (done.telling, done.ok, done.in_words, done.fell_back) == (Telling(text="So it is 6."), True, True, False)


@pytest.mark.parametrize(
    "torn", ['{"sentences": [{"text": "6', "[6]", '{"sentences": []}', '{"a": ' * 9000, "```json\n{}\n```"]
)
def test_a_torn_answer_is_sent_back_once_and_then_dropped_by_name(torn):
    once, twice = Script(torn, sentences("6")), Script(torn, torn)

    good, bad = translated(once, tells="claims"), translated(twice, tells="claims")

    assert (good.ok, good.repaired) == (True, True)
    assert once.asked[1][2]["content"].startswith("This is not one JSON object of the form that was asked for.")
    assert (bad.reason, bad.telling, len(twice.asked)) == ("torn-claims", None, 2)
    assert bad.raw in torn


def test_a_torn_second_answer_does_not_cost_the_first():
    done = translated(Script(sentences("6", "7"), "{"), tells="claims")

    assert (done.ok, done.repaired, done.telling.left_out) == (True, True, ("7",))


PROVEN_BY = json.dumps({"sentences": [{"number": 1, "claims": [{"kind": "value", "subject": "n", "value": "6"}]}]})


class OnlyClaims(Judge):
    """Takes nothing without claims."""

    async def prove(self, telling):
        found = await super().prove(telling)
        return dataclasses.replace(found, faithful=found.faithful and '"6"' in telling.claims)

    async def mend(self, telling):
        return None


def test_a_reader_gives_the_claims_of_prose_that_does_not_pass_without():
    model = Script("So n is 6.", PROVEN_BY)

    done = translated(model, tells="reader", judge=OnlyClaims())

    assert (done.ok, done.read, done.repaired, done.telling.text) == (True, True, False, "So n is 6.")
    assert model.schemas == [None, reading_schema()]
    (question,) = model.asked[1]
    assert "1. So n is 6." in question["content"]
    assert SHOWN.source in question["content"]
    assert SHOWN.trace not in question["content"]


def test_what_passes_without_a_reader_or_is_refuted_is_not_read():
    class Refuted(OnlyClaims):
        async def prove(self, telling):
            return dataclasses.replace(await super().prove(telling), refuted=1)

    passes, refuted = Script("So n is 6."), Script("So n is 6.", "n is 6")

    assert (translated(passes, tells="reader").read, len(passes.asked)) == (False, 1)
    assert translated(refuted, tells="reader", judge=Refuted()).reason == "unproven-claims"
    assert refuted.schemas == [None, None]


@pytest.mark.parametrize("said", ["{", "", FormatRefused("no"), RequestRefused("long"), '{"sentences": [7]}'])
def test_where_a_reader_says_nothing_of_use_the_prose_stays_what_it_was(said):
    again = [] if isinstance(said, FormatRefused) else [said]
    model = Script("So n is 6.", said, "Again n is 6.", *again)

    done = translated(model, tells="reader", judge=OnlyClaims())

    assert (done.reason, done.read, done.telling.text) == ("unproven-claims", False, "Again n is 6.")
    assert done.fell_back is isinstance(said, FormatRefused)
    assert model.texts == []


def test_a_long_prose_is_read_in_parts():
    text = " ".join(f"{number}6." for number in range(100))

    class Cut(OnlyClaims):
        async def prove(self, telling):
            spans = tuple(match.span() for match in re.finditer(r"\d+6\.", telling.text))
            return dataclasses.replace(await super().prove(telling), sentences=spans)

    model = Script(text.replace("7", "5"), PROVEN_BY, '{"sentences": []}', '{"sentences": []}')

    done = translated(model, tells="reader", judge=Cut())

    assert (done.ok, done.read, model.texts) == (True, True, [])
    assert len(json.loads(done.telling.claims)["sentences"]) == 100
