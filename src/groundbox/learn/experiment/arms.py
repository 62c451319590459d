"""Arms of the experiment: texts between a program and its answer, of the same programs in each."""

from __future__ import annotations

import ast
import dataclasses
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from groundbox.trace.record.reading import Trace
from groundbox.trace.run.folding import ALL, Begin, Done, Enter, Leave
from groundbox.trace.show.moments import MomentTexts
from groundbox.values.parsing import module_of

ARMS: Final = ("direct", "raw", "concise", "bare", "proven", "jumps", "false8", "false25", "mutated", "unrelated")
LOGS: Final = frozenset({"raw", "concise"})
"""Arms whose steps are lines of a log of the run."""
WORDLESS: Final = LOGS | {"bare"}
"""Arms whose steps `claims_without_words` reads; the others' are sentences."""
ANSWER: Final = "Answer: "
_MOST_CHARS: Final = 100_000
"""Of one value in a log: more than any has."""
_LEFT_OUT: Final = 0.3
"""Share of the steps that `jumps` passes over."""
_FALSE: Final[Mapping[str, float]] = {"false8": 0.085, "false25": 0.25}
"""Share of the steps of which a number is false; 8.5 % is what the paper found of its own (arXiv 2506.10343)."""
_NUMBER: Final = re.compile(r"(?<![\w.])-?\d+(?![\w.])")
_STEP: Final = re.compile(r"^\d+\. ", re.MULTILINE)
_CODE: Final = re.compile(r"`([^`]*)`(?: = )?")
_SAID: Final = r"(?:-?\d+|True|False|None)"
_FACT: Final = re.compile(
    r"(?:`(?P<name>\w+)`(?: (?!and\b|or\b)[a-z]+)*(?: =)? +)?"
    rf"(?<![\w.`-])(?<!iteration )(?P<said>{_SAID}(?: (?:[-+*/%<>=!]{{1,2}}|and|or) {_SAID})*)"
    r"(?![\w`]|\.\d| times| iterations?)"
)
"""A value, or values with signs between them, and before it the name that has it, with words between the two."""
_OTHER: Final[Mapping[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Mod: ast.FloorDiv, ast.FloorDiv: ast.Mod,
}  # fmt: skip
_TURNED: Final[Mapping[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
}  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class Example:
    """A run with all that the arms tell it from.

    Attributes:
        call: Of the program, with its arguments.
        answer: The result as a literal.
        narration: Proven, every step derivable, numbered.
        mutated: Reply of the arm `mutated`: narration and result of this call of one of `mutants`; "" without one.
    """

    id: str
    source: str
    call: str
    answer: str
    narration: str
    trace: Trace
    mutated: str = ""

    @property
    def prompt(self) -> str:
        """Program and call, as a model is given them."""
        return f"{self.source.rstrip()}\n\n{self.call}\n"


def reply(arm: str, example: Example, others: Sequence[Example], random_: random.Random) -> str:
    """The whole reply of an arm: what it tells, and a last line with the answer.

    * `direct` tells nothing, `raw` the log of the paper's tracer, `concise` a line for each step that did something.
    * `proven` tells the proven narration, `bare` the same without its words. `jumps` leaves steps of it out: all that
      it says is so, and not all follows.
    * `false8`, `false25` change a number of some of its steps, and go on with the right one.
    * `mutated` tells a run of another program under this one's text; the error propagates up to the answer. Where no
      mutant keeps within the bound, it tells this one's.
    * `unrelated` tells another example's run, with this one's answer: as much text, and nothing in it that helps.
    """
    if arm == "mutated" and example.mutated:
        return example.mutated
    told = _told(arm, example, others, random_)
    return f"{told}\n{ANSWER}{example.answer}" if told else f"{ANSWER}{example.answer}"


def _told(arm: str, example: Example, others: Sequence[Example], random_: random.Random) -> str:
    if arm == "direct":
        return ""
    if arm in LOGS:
        return log(arm, example.trace)
    if arm == "unrelated":
        place = random_.randrange(len(others))
        if others[place].id == example.id:
            place = (place + 1) % len(others)
        return others[place].narration
    if arm == "bare":
        return bare(example.narration)
    first, *middle, last = _steps(example.narration)
    if arm == "jumps":
        middle = [step for step in middle if random_.random() >= _LEFT_OUT]
    if share := _FALSE.get(arm):
        middle = [_falsified(step, random_) if random_.random() < share else step for step in middle]
    return "\n".join(f"{number}. {step}" for number, step in enumerate([first, *middle, last], 1))


def _steps(narration: str) -> list[str]:
    return [step.strip() for step in _STEP.split(narration) if step.strip()]


def _falsified(step: str, random_: random.Random) -> str:
    """The step with its last number changed, which is most often the value that it comes to."""
    numbers = list(_NUMBER.finditer(step))
    if not numbers:
        return step
    found = numbers[-1]
    other = int(found[0]) + random_.choice([-1, 1]) * random_.randint(1, 9)
    return f"{step[: found.start()]}{other}{step[found.end() :]}"


def log(arm: str, trace: Trace) -> str:
    """The log that an arm of `LOGS` tells."""
    return raw(trace) if arm == "raw" else concise(trace)


def raw(trace: Trace) -> str:
    """The run as the paper has snoop 0.6.0 print it, whole.

    Each line with its number before it runs, under it what it calls, and then once more, and the names that it changed.
    """
    telling = _whole(trace)
    lines: list[str] = []
    depth = 0
    for moment in telling.moments():
        edge = "    " * (depth - 1)
        if isinstance(moment, Enter) and moment.activation.short_name != "<module>":
            activation, edge = moment.activation, "    " * depth
            lines.append(f"{edge}>>> Call to {activation.short_name}")
            lines += [f"{edge}...... {name} = {telling.value(value)}" for name, value in activation.args.items()]
            lines.append(f"{edge}{activation.line:>4} | {_line(telling, activation.line)}")
            depth += 1
        elif isinstance(moment, Begin) and depth:
            lines.append(f"{edge}{moment.step.line:>4} | {_line(telling, moment.step.line)}")
        elif isinstance(moment, Done) and depth:
            source = _line(telling, moment.step.line)
            lines.append(f"{edge}{moment.step.line:>4} | {source}")
            dots = "." * (6 + len(source) - len(source.lstrip()))
            changed = [(name, value) for name, value in telling.changes(moment.step) if value is not None]
            lines += [f"{edge}{dots} {name} = {value}" for name, value in changed]
        elif isinstance(moment, Leave) and depth:
            depth -= 1
            name, value = moment.activation.short_name, telling.value(moment.activation.value)
            lines.append(f"{edge}<<< Return value from {name}: {value}")
    return "\n".join(lines)


def concise(trace: Trace) -> str:
    """A line for each step that did something: its number and what it did."""
    telling = _whole(trace)
    lines: list[str] = []
    depth = 0
    for moment in telling.moments():
        if isinstance(moment, Enter) and moment.activation.short_name != "<module>":
            lines.append(f"{moment.activation.short_name}({telling.arguments(moment.activation)})")
            depth += 1
        elif isinstance(moment, Done) and depth:
            if effects := telling.effects(moment.step):
                lines.append(f"{moment.step.line}: {'; '.join(effects)}")
        elif isinstance(moment, Leave) and depth:
            lines.append(f"return {telling.value(moment.activation.value)}")
            depth -= 1
    return "\n".join(lines)


def _whole(trace: Trace) -> MomentTexts:
    """Tell a run without leaving anything out, as people at a terminal want it."""
    return MomentTexts(trace, ALL, _MOST_CHARS)


def _line(telling: MomentTexts, line: int) -> str:
    return telling.structure.syntax.lines[line - 1].rstrip()


def bare(narration: str) -> str:
    """The values of a narration, with how they came about, without its words: a line for each step that has any.

    Of "`c` is set to `b - a` = 16 - 8 = 8" stays "c = 16 - 8 = 8", and of "9 >= 5, so `a >= 5` is true" stays "9 >= 5".
    Only numbers and constants are values here, as in programs of the grammar.
    """
    lines = []
    for step in _steps(narration)[:-1]:  # the last one says the answer
        told = _CODE.sub(lambda code: code[0] if code[1].isidentifier() else "", step)
        facts = [f"{fact['name']} = {fact['said']}" if fact["name"] else fact["said"] for fact in _FACT.finditer(told)]
        lines += ["; ".join(facts)] if facts else []
    return "\n".join(lines)


def claims_without_words(arm: str, told: str) -> Iterator[tuple[str, int, str]]:
    """Yield the claims of a text of an arm of `WORDLESS`: the place, how many times it came up to then, and the event.

    In `bare` the place of a value is its name; conditions have none, and come one after the other.
    """
    if arm in LOGS:
        yield from claims_of_log(told)
        return
    times: Counter[str] = Counter()
    for fact in filter(None, re.split("; |\n", told.strip())):
        name, sign, value = fact.partition(" = ")
        place, said = (name, value) if sign and name.isidentifier() else ("", fact)
        times[place] += 1
        yield place, times[place], said


_CLAIMS: Final = re.compile(
    r"^ *(?:(?P<line>\d+) \|.*|\.{6,} (?P<name>\w+) = (?P<value>.*)"
    r"|<<< Return value from (?P<function>\w+): (?P<result>.*)"
    r"|(?P<at>\d+): (?P<did>.*)|return (?P<returned>.*)|(?P<call>\w+\(.*\)))$"
)


def claims_of_log(log: str) -> Iterator[tuple[str, int, str]]:
    """Yield the claims of a log of `raw` or `concise`: the place, how many times it came up to then, and the event.

    In `raw` these are the values under lines and of calls and returns; in `concise` each line is one.
    """
    times: Counter[str] = Counter()
    line = "call"
    for text in log.splitlines():
        if not (found := _CLAIMS.match(text)):
            line = "call" if text.lstrip().startswith(">>>") else line
            continue
        if found["line"] is not None:
            line = found["line"]
            continue
        if found["name"] is not None:
            place, said = f"{line} {found['name']}", found["value"]
        elif found["function"] is not None:
            place, said = f"return {found['function']}", found["result"]
        elif found["at"] is not None:
            place, said = found["at"], found["did"]
        elif found["returned"] is not None:
            place, said = "return", found["returned"]
        else:
            place, said = "call", found["call"]
        times[place] += 1
        yield place, times[place], said.strip()


def mutants(source: str, random_: random.Random) -> Iterator[str]:
    """The program with one operator, comparison or constant changed, each place once, in random order."""
    places = [number for number, node in enumerate(ast.walk(module_of(source))) if _changeable(node)]
    random_.shuffle(places)
    for place in places:
        tree = module_of(source)
        chosen = list(ast.walk(tree))[place]
        if isinstance(chosen, ast.BinOp):
            chosen.op = _OTHER[type(chosen.op)]()
        elif isinstance(chosen, ast.Compare):
            chosen.ops = [_TURNED[type(chosen.ops[0])]()]
        elif isinstance(chosen, ast.Constant):
            chosen.value = int(str(chosen.value)) + 1
        yield ast.unparse(tree) + "\n"


def _changeable(node: ast.AST) -> bool:
    if isinstance(node, ast.BinOp):
        return type(node.op) in _OTHER
    if isinstance(node, ast.Compare):
        return len(node.ops) == 1 and type(node.ops[0]) in _TURNED
    return isinstance(node, ast.Constant) and type(node.value) is int
