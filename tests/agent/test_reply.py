import pytest

from groundbox.agent.messages import Call, Reply
from groundbox.agent.reply import MOST_CALLS, Answer, Keep, Malformed, Read, Run, Try, promises, steps_of
from groundbox.check.contracts import Contract

LANGUAGES = {"python", "sql", "shell"}


def steps(text="", *calls, was_run=lambda source, language: False, branches=1):
    return steps_of(Reply(text=text, calls=calls), LANGUAGES, was_run=was_run, branches=branches)


def run_call(arguments, name="run_code"):
    return Call(name=name, arguments=arguments, call_id="1")


def test_a_call_is_a_program():
    assert steps("", run_call('{"code": "print(1)"}')) == [Run(source="print(1)", call_id="1")]
    assert steps("", run_call({"code": "SELECT 1", "language": "SQL", "database": "shop"})) == [
        Run(source="SELECT 1", language="sql", options={"database": "shop"}, call_id="1")
    ]
    assert steps("", run_call({"code": "ls", "language": "bash"})) == [Run(source="ls", language="shell", call_id="1")]


def test_a_call_says_what_its_value_has_to_be():
    (run,) = steps("", run_call({"code": "1", "expect": {"type": "number", "min": 0}}))
    (refused,) = steps("", run_call({"code": "1", "expect": {"type": "number", "least": 0}}))

    assert run.expect == Contract.of({"type": "number", "min": 0})
    assert isinstance(refused, Malformed)
    assert refused.problem.startswith("expect['least'] : is no key of a number; it has")


def test_a_fence_around_an_argument_is_taken_off():
    assert steps("", run_call({"code": "```python\nprint(1)\n```"})) == [Run(source="print(1)\n", call_id="1")]


def test_a_call_for_what_was_cut():
    call = Call(name="read_output", arguments='{"handle": "1.stdout", "lines": "3-9"}', call_id="2")

    assert steps("", call) == [Read(handle="1.stdout", lines="3-9", call_id="2")]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ('{"code": "print(1)', "not JSON at character"),
        ("[" * 100_000, "not JSON"),
        ("[1]", "no JSON object"),
        ("", "needs `code`"),
        ('{"code": 3}', "needs `code`"),
        ('{"code": " \\n"}', "holds no statement"),
        ('{"code": "# only a comment"}', "holds no statement"),
        ('{"code": "x", "language": "cobol"}', "The languages are python, shell, sql."),
        ('{"code": "x", "language": 3}', "no such language"),
        ('{"code": "x", "database": 3}', "a text"),
    ],
)
def test_a_call_that_cannot_be_done_says_how_to_mend_it(arguments, problem):
    (step,) = steps("", run_call(arguments))

    assert isinstance(step, Malformed)
    assert problem in step.problem
    assert step.call_id == "1"


def test_calls_of_no_tool_and_calls_over_the_number_are_refused():
    assert "no tool" in steps("", run_call({}, name="open_browser"))[0].problem
    many = steps("", *[run_call({"code": "1"})] * (MOST_CALLS + 2))
    assert [type(step) for step in many] == [Run] * MOST_CALLS + [Malformed] * 2


def test_programs_are_taken_out_of_prose():
    text = "First look.\n\n```python\nimport a\n```\nthen\n~~~sql\nSELECT 1\n~~~\n```\nnot a program\n```\n"

    assert steps(text) == [Run(source="import a\n"), Run(source="SELECT 1\n", language="sql")]


def test_a_block_without_language_is_a_program_when_it_does_something():
    assert steps("```\nprint(1)\n```") == [Run(source="print(1)\n")]
    assert steps("It is:\n```\n42\n```") == [Answer(text="It is:\n```\n42\n```")]
    assert steps("```text\nprint(1)\n```") == [Answer(text="```text\nprint(1)\n```")]


def test_an_unfinished_block_is_a_program_all_the_same():
    assert steps("```python\nprint(1)") == [Run(source="print(1)")]


def test_a_program_that_was_run_before_is_a_quotation():
    text = "It is 42, by\n```python\nprint(42)\n```"

    assert steps(text, was_run=lambda source, language: source == "print(42)\n") == [Answer(text=text)]


@pytest.mark.parametrize("mark", ["Answer:", "**Final answer:**", "final answer: ", "> Answer:"])
def test_a_marked_answer_is_one_whatever_it_quotes(mark):
    text = f"I looked.\n{mark} 42, by\n```python\nprint(42)\n```"

    assert steps(text) == [Answer(text="42, by\n```python\nprint(42)\n```", marked=True)]


def test_a_mark_inside_a_program_is_none():
    assert steps("```python\nanswer: int = 3\n```") == [Run(source="answer: int = 3\n")]


@pytest.mark.parametrize("text", ["", " \n", "Answer: \n"])
def test_nothing_is_no_answer(text):
    assert isinstance(steps(text)[0], Malformed)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I'll load the file and compute the mean.", True),
        ("Let me check the columns:", True),
        ("The data has three columns. Next, I will group them.", True),
        ("Here is the program:", True),
        ("The first quarter was best, with 150.", False),
        ("Let me sum up. The mean is 4.", False),
        ("It is 4. Let me know if you need more.", False),
    ],
)
def test_a_text_that_says_what_will_be_done_is_told_from_an_answer(text, expected):
    assert promises(text) is expected


def test_programs_side_by_side_are_asked_for_by_one_call():
    tried = run_call({"programs": ["1", "2"], "language": "SQL"}, name="try_programs")
    kept = run_call({"run": 3}, name="keep_run")

    programs = [Run(source="1", language="sql", call_id="1"), Run(source="2", language="sql", call_id="1")]
    assert steps("", tried, kept, branches=3) == [Try(programs=programs, call_id="1"), Keep(run=3, call_id="1")]


@pytest.mark.parametrize(
    ("name", "arguments", "problem"),
    [
        ("try_programs", {"programs": ["1"]}, "try_programs needs `programs`, a list of 2 to 3 texts"),
        ("try_programs", {"programs": ["1"] * 4}, "try_programs needs `programs`, a list of 2 to 3 texts"),
        ("try_programs", {"programs": "1"}, "try_programs needs `programs`, a list of 2 to 3 texts"),
        ("try_programs", {"programs": ["1", "# no"]}, "Program 2 of 2: `code` holds no statement."),
        ("keep_run", {"run": "3"}, "keep_run needs `run`, the number of a run that was tried."),
        ("keep_run", {"run": True}, "keep_run needs `run`, the number of a run that was tried."),
        ("fork", {}, "The tools are run_code, try_programs, keep_run and read_output."),
    ],
)
def test_programs_side_by_side_that_cannot_be_meant_are_told_so(name, arguments, problem):
    (step,) = steps("", run_call(arguments, name=name), branches=3)

    assert isinstance(step, Malformed)
    assert problem in step.problem


def test_where_nothing_is_copied_there_is_no_such_tool():
    told = "There is no tool of the name that was called. The tools are run_code and read_output."

    assert steps("", run_call({"programs": ["1", "2"]}, name="try_programs")) == [Malformed(problem=told, call_id="1")]
    assert steps("", run_call({"run": 2}, name="keep_run")) == [Malformed(problem=told, call_id="1")]
