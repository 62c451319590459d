"""Recorded answers with planted falsehoods: none is missed, and few true statements are doubted."""

import itertools

import pytest

from groundbox.check import check_answer

FILES = ("first.txt", "second.txt", "third.txt")
MOST_ALARMS = 0.05
MOST_SPOILED_MISSED = 0.05


@pytest.fixture(scope="module", params=FILES)
def judged(request, transcripts):
    results = []
    for one in transcripts.read(request.param):
        report = check_answer(one.answer, one.executions, question=one.question)
        missed, alarms, mentions = transcripts.judged(one, report)
        results.append((one, [one.answer[a:b] for a, b in missed], [alarm.text for alarm in alarms], mentions))
    return results


def test_no_planted_falsehood_is_missed(judged):
    assert [(one.name, missed) for one, missed, _, _ in judged if missed] == []


def test_few_true_statements_are_doubted(judged):
    alarms = [(one.name, alarms) for one, _, alarms, _ in judged if alarms]
    mentions = sum(count for *_, count in judged)

    assert sum(len(texts) for _, texts in alarms) <= MOST_ALARMS * mentions, alarms


def test_there_are_enough_transcripts(transcripts):
    every = [one for name in FILES for one in transcripts.read(name)]

    assert len(every) >= 60
    assert sum(bool(one.planted) for one in every) >= 25


def spoiled(text):
    """The number with two digits exchanged, with another first digit and with another last one."""
    at = [position for position, character in enumerate(text) if character.isdigit()]
    for one, other in itertools.pairwise(at):
        if text[one] != text[other] and not (one == at[0] and text[other] == "0"):
            letters = list(text)
            letters[one], letters[other] = letters[other], letters[one]
            yield "".join(letters)
    for position, step in ((at[0], 3), (at[-1], 7)) if at else ():
        digit = str((int(text[position]) + step) % 10)
        if digit != "0" or position != at[0]:
            yield text[:position] + digit + text[position + 1 :]


@pytest.mark.parametrize("name", FILES)
def test_a_true_number_that_is_spoiled_is_hardly_ever_taken(name, transcripts):
    """What still passes stands elsewhere in the same output, most often."""
    tried, missed = 0, []
    for one in transcripts.read(name):
        for mention in check_answer(one.answer, one.executions, question=one.question).mentions:
            planted = any(mention.start < end and start < mention.end for start, end in one.planted)
            if mention.kind != "number" or mention.support is None or planted:
                continue
            for text in spoiled(mention.text):
                tried += 1
                answer = one.answer[: mention.start] + text + one.answer[mention.end :]
                report = check_answer(answer, one.executions, question=one.question)
                if not any(m.start < mention.start + len(text) and mention.start < m.end for m in report.unsupported):
                    missed.append((one.name, mention.text, text))

    assert tried > 150
    assert len(missed) <= MOST_SPOILED_MISSED * tried, missed
