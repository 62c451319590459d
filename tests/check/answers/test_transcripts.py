"""Recorded answers with planted falsehoods: none is missed, and few true statements are doubted."""

import pytest

from groundbox.check import check_answer

FILES = ("first.txt", "second.txt")
MOST_ALARMS = 0.05


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
