"""Replies as models write them: the program that is meant is judged, and an answer that is right is right."""

import time

import pytest

from groundbox.agent.messages import Reply as Said
from groundbox.agent.reply import Run, steps_of
from groundbox.dataset.tasks import checking
from groundbox.endpoint.programs import program_of
from groundbox.learn.evaluation import gym, pal
from groundbox.learn.rewards.reading import answer_of
from groundbox.learn.rewards.rewarding import Rewards
from groundbox.values.plain_answer import plain_answer

PROGRAM = "def twice(n):\n    return n * 2\n"
USAGE = f"""
```python
{PROGRAM}```
Usage:
```python
print(twice(3))
```
"""
PRINTED = f"""
```python
{PROGRAM}```
For example, `twice(2)` prints:
```
4
```
"""
ASSIGNED = f"""
```python
{PROGRAM}```
```
result = twice(2)
```
"""
FENCE_IN_DOCSTRING = """
```python
def twice(n):
    \"\"\"Example:
    ```
    twice(2)
    ```
    \"\"\"
    return n * 2
```
"""
FENCE_AT_THE_MARGIN_OF_A_DOCSTRING = """
```python
def twice(n):
    r\'\'\'
```python
twice(2)
```
it's so
\'\'\'
    return n * 2
```
and that is it.
"""
THOUGHT = f"""<think>```python
def twice(n): return 9
```</think>
```python
{PROGRAM}```
"""
THOUGHT_WITHOUT_OPENING = f"""```python
def twice(n): return 9
```</think>
```python
{PROGRAM}```
"""
HELPER_FIRST = """
```python
def add(a, b):
    return a + b
```
With it:
```python
def twice(n):
    return add(n, n)
```
Test it:
```python
assert twice(2) == 4
```
"""
IN_A_LIST = """
1. The function:
   ```python
   def twice(n):
       return n * 2
   ```
2. Done.
"""
STUB_AFTER = f"""
```python
{PROGRAM}```
It completes
```python
def twice(n):
    \"\"\"Twice.\"\"\"
```
"""
UNNAMED_ALONE = f"""
```
{PROGRAM}```
```
4
```
"""
TILDES = f"""
~~~python
{PROGRAM}~~~
~~~text
4
~~~
"""
IN_MARKDOWN = f"""
````markdown
# Solution
```python
{PROGRAM}```
````
"""
AS_A_SESSION = """
```python
>>> def twice(n):
...     return n * 2
...
>>> twice(2)
4
```
"""
INDENTED = """I'd write it like this:

    def twice(n):

        return n * 2

It's short.
"""
REPLIES = {
    name.lower(): value
    for name, value in list(globals().items())
    if name.isupper() and isinstance(value, str) and name not in ("PROGRAM",)
}


@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES.keys())
def test_the_program_that_defines_what_was_asked_for_is_the_one_that_is_judged(reply):
    chosen = program_of(reply, "twice")
    namespace = {}

    exec(chosen.text, namespace)

    assert namespace["twice"](4) == 8
    assert chosen.why


@pytest.mark.parametrize("reply", [USAGE, PRINTED, FENCE_IN_DOCSTRING, THOUGHT, HELPER_FIRST])
def test_the_program_is_found_also_if_nobody_says_what_it_has_to_define(reply):
    namespace = {}

    exec(program_of(reply).text, namespace)

    assert namespace["twice"](4) == 8


def test_a_reply_says_which_block_was_taken_and_why():
    assert program_of(HELPER_FIRST, "twice").why == "the last block that defines `twice`, after 1 earlier that it needs"
    assert program_of("x = 1").why == "nothing is fenced, so all of it"
    assert program_of("```sql\nSELECT 1\n```").why == "no block is Python"
    assert program_of("<think>```python\nx = 1\n```", "x").why == "the thinking was not ended"


def test_the_reward_of_a_program_that_is_shown_with_its_usage_is_full():
    replies = [USAGE, THOUGHT, "```python\ndef twice(n): return 9\n```"]

    scored = Rewards().tests(
        replies, tests=["def check(candidate):\n    assert candidate(3) == 6\n"] * 3, entry_point=["twice"] * 3
    )

    assert scored == [1.0, 1.0, 0.0]


PRINTED_LINE = {"kind": "value", "value": "'675\\n'"}
LIST = {"kind": "value", "value": "[1, 2]"}
NUMBER = {"kind": "value", "value": "3"}
TEXT = {"kind": "value", "value": "'ab'"}


@pytest.mark.parametrize(
    ("check", "reply", "is_right"),
    [
        (PRINTED_LINE, "Answer: '675'", True),
        (PRINTED_LINE, "Answer: '675\\n'", True),
        (PRINTED_LINE, "Answer: 675", True),
        (PRINTED_LINE, "Answer:\n```\n675\n```", True),
        (PRINTED_LINE, "Answer: 676", False),
        (PRINTED_LINE, "Answer: '67 5'", False),
        (LIST, "Answer: `[1, 2]`.", True),
        (LIST, "Answer: [1, 2].", True),
        (LIST, "Answer:\n```python\n[1, 2]\n```\n", True),
        (LIST, "**Answer:** **[1, 2]**.", True),
        (LIST, "Answer: (1, 2)", False),
        (NUMBER, "Answer: 3.", True),
        (NUMBER, "Answer: 3.0", False),
        (NUMBER, "Answer: '3'", False),
        (TEXT, "Answer: 'ab'", True),
        (TEXT, "Answer: ab", False),
        (NUMBER, "<think>Answer: 4</think>Answer: 3", True),
        (NUMBER, "<think>Answer: 3", False),
        (NUMBER, "Answer: **3**\n\nI hope this helps!", True),
        (NUMBER, "Answer: 3\nbecause the loop runs three times", True),
        (NUMBER, "Answer: 4\n\n3 would be wrong", False),
        (NUMBER, "**Answer**: 3", True),
        (NUMBER, "### Final Answer: 3", True),
        (NUMBER, "ANSWER: 3", True),
        (NUMBER, r"Answer: $\boxed{3}$", True),
        (NUMBER, r"Answer: \(3\).", True),
        (NUMBER, r"Answer: \boxed{4}", False),
        (NUMBER, "Answer: $3$ or $4$", False),
        (NUMBER, "Answer: ３", True),
        (TEXT, "Answer: 'ａb'", False),
        (TEXT, "Answer: ‘ab’", True),
        (TEXT, "Answer: “ab”.", True),
        (LIST, "Answer: [1, 2]<|im_end|>", True),
        (LIST, "Answer: [1, 2]</s>\n", True),
        (TEXT, "Answer: 'ab</s>'", False),
        ({"kind": "value", "value": "1234"}, "Answer: 1,234", True),
        ({"kind": "value", "value": "(1, 234)"}, "Answer: 1,234", True),
        ({"kind": "value", "value": "(1, 23)"}, "Answer: 123", False),
        (NUMBER, "Answer: f([1], g(2)) == 3", True),
        (NUMBER, "Answer: x = 3", True),
        (NUMBER, "Answer: f(3) == 4", False),
        (NUMBER, "Answer: 4 == 3", False),
        ({"kind": "value", "value": "True"}, "Answer: f(3) == 4", False),
        (LIST, "Answer: [1,\n2]", True),
        (LIST, "Answer:\n```\n[1, 2]\n```\n\nI hope this helps!", True),
        (PRINTED_LINE, "Answer: 675\n\nI hope this helps!", True),
    ],
)
def test_an_answer_is_right_however_it_is_put(check, reply, is_right):
    assert checking.right(check, answer_of(reply)) is is_right


def test_an_agent_runs_a_program_with_a_fence_in_its_docstring_whole():
    (step,) = steps_of(Said(text=FENCE_IN_DOCSTRING), ["python"])

    assert isinstance(step, Run)
    assert step.source.endswith("return n * 2\n")


@pytest.mark.parametrize(
    ("given", "true", "is_same"),
    [
        ("1,234", "1234", True),
        ("9{,}500", "9500", True),
        (r"\$9{,}500", "9500", True),
        (r"\boxed{\dfrac{3}{4}}", "3/4", True),
        (r"$\frac{6}{8}$", "3/4", False),
        ("75%", "75", True),
        (r"75\%", "75", True),
        ("75%", "0.75", False),
        ("42 apples", "42", True),
        ("42 apples and 3 pears", "42", False),
        ("(B)", "B", True),
        ("b)", "B", True),
        ("(B)", "C", False),
        ("2024-03-06", "March 6, 2024", True),
        ("6 March 2024.", "2024-03-06", True),
        ("2024-03-07", "March 6, 2024", False),
        ("03/04/2024", "2024-03-04", False),
        ("2024-03-06 10:00", "2024-03-06 11:00", False),
        ("B. 42", "B", True),
        ("(B) forty two", "B", True),
        ("Bob", "B", False),
        ("A: not B", "B", False),
        ("１２", "12", True),
        ("12", "12 cm", False),
        ("-5", "5", False),
        ("x = 5", "5", True),
        (r"$x = 5$", "5", True),
        ("x = 6", "5", False),
    ],
)
def test_a_number_or_a_choice_is_right_in_any_notation(given, true, is_same):
    assert gym.is_answer(given, true) is is_same


@pytest.mark.parametrize(
    ("text", "number"),
    [("The total is 72 clips, altogether.", 72), (r"\boxed{\$9{,}500}", 9500), ("合計１２個", 12), ("1, 234", 234)],
)
def test_the_last_number_of_an_output_is_read_in_any_notation(text, number):
    assert pal.number(text) == number


@pytest.mark.parametrize("mark", ["$", "**", r"\text{", r"\frac{1}{", "{", "9{,}"])
def test_marks_without_end_take_bounded_time(mark):
    begun = time.process_time()

    plain_answer(mark * 5000)

    assert time.process_time() - begun < 1
