"""For the tests of answers: the reader of transcripts."""

import importlib.util
import sys
from pathlib import Path

import pytest


def load():
    """The module beside this one, under importlib's import mode."""
    spec = importlib.util.spec_from_file_location("answer_transcripts", Path(__file__).with_name("transcripts.py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def transcripts():
    return load()


@pytest.fixture(scope="session")
def check(transcripts):
    """`check(answer, stdout)`: verdicts by the text of the mention."""
    from groundbox.check import check_answer

    def verdicts(answer, stdout="", question=None, programs=(), **more):
        runs = [transcripts.execution(stdout=stdout, **more)]
        report = check_answer(answer, runs, question=question, programs=programs)
        return {mention.text: str(mention.verdict) for mention in report.mentions}

    return verdicts
