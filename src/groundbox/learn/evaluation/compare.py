"""Two runs compared question by question: who is right where the other is not, and how sure the differences are.

Pairs are the questions that both runs answered and judged; the others are counted. Of the right ones McNemar's exact
test, of every difference B - A a bootstrap interval over the questions, which keeps pairs together. An interval that
holds 0 is no proof that there is no difference.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from groundbox.errors import InvalidArgument
from groundbox.learn.evaluation import results
from groundbox.learn.evaluation.measures import RESAMPLES, bootstrap, mcnemar, mean
from groundbox.learn.evaluation.report import figures, is_unfinished
from groundbox.learn.evaluation.results import Result

Pair: TypeAlias = tuple[Result, Result]
_PER_REPLY: Final[Mapping[str, Callable[[Result], float | None]]] = {
    "accuracy": lambda each: None if each.right is None else float(each.right),
    "tokens": lambda each: each.completion_tokens or None,
    "chars": lambda each: len(each.reply),
    "unfinished": lambda each: float(is_unfinished(each)),
    "repeated": lambda each: each.repeated,
}
_SHARES: Final[Mapping[str, Callable[[Result], tuple[float, float]]]] = {
    "step_truth": lambda each: (each.steps.borne_out, each.steps.told) if each.steps else (0, 0),
    "refuted": lambda each: (each.steps.refuted, each.steps.told) if each.steps else (0, 0),
    "follows": lambda each: (
        (float(each.steps.follows), 1.0) if each.steps and each.steps.follows is not None else (0.0, 0.0)
    ),
}


class _Sums(NamedTuple):
    """Parts and wholes of a share, of both runs."""

    a: float
    a_of: float
    b: float
    b_of: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Comparison:
    """A comparison of two runs: what they have in common, and how they differ.

    Attributes:
        names: Of the runs.
        facts: What `--json` prints.
        pairs: The questions that both answered.
    """

    names: tuple[str, str]
    facts: Mapping[str, Any]
    pairs: Sequence[Pair]


def compare(a: Path, b: Path, *, seed: int = 0, resamples: int = RESAMPLES) -> Comparison:
    """Compare the results in two folders.

    Raises:
        InvalidArgument: One holds none, or they are of different suites, or have no question in common.
    """
    one, other = results.read(a), results.read(b)
    for key, words in (("suite", "suites"), ("prompts", "questions or words of the same suite")):
        if one[0].get(key) != other[0].get(key):
            raise InvalidArgument(
                "FOLDER", f"{a} and {b} are of different {words} ({one[0]['suite']}, {other[0]['suite']})"
            )
    theirs = {each.id: each for each in other[2]}
    pairs = [(each, theirs[each.id]) for each in one[2] if each.id in theirs]
    if not pairs:
        raise InvalidArgument("FOLDER", f"{a} and {b} have no answered question in common")
    names = _names(a, b)
    groups = sorted({each.group for each, _ in pairs})
    facts = {
        "a": {"name": names[0], "model": one[0]["model"], "request": one[0]["request"]},
        "b": {"name": names[1], "model": other[0]["model"], "request": other[0]["request"]},
        "suite": one[0]["suite"],
        "differs": _differs(one[0], other[0]),
        "pairs": len(pairs),
        "only_in_a": len(one[2]) - len(pairs),
        "only_in_b": len(other[2]) - len(pairs),
        "seed": seed,
        "resamples": resamples,
        **compared(pairs, seed=seed, resamples=resamples),
        "figures": {"a": figures([each for each, _ in pairs]), "b": figures([each for _, each in pairs])},
    }
    if len(groups) > 1:
        facts["groups"] = {
            name: _rights([pair for pair in pairs if pair[0].group == name], seed=seed, resamples=resamples)
            for name in groups
        }
    return Comparison(names=names, facts=facts, pairs=pairs)


def _differs(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Versions by which the runs were judged, and facts of what was asked, that are not the same for both."""
    told = [
        {**(each.get("source") or {}), **{f"version of {name}": value for name, value in _versions(each).items()}}
        for each in (a, b)
    ]
    names = [name for name in dict.fromkeys([*told[0], *told[1]]) if name != "name"]  # of a file, which may be a copy
    return {name: [each.get(name) for each in told] for name in names if told[0].get(name) != told[1].get(name)}


def _versions(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    return settings.get("versions") or {}


def cautions(facts: Mapping[str, Any]) -> list[str]:
    """Sentences on what makes the differences more than those of the models."""
    told = []
    for name, (a, b) in facts["differs"].items():
        if name.startswith("version of "):
            what = "judged by other versions"
            words = f"{name.removeprefix('version of ')} {a or 'unknown'} (A) and {b or 'unknown'} (B)"
            mend = "`eval model` with the settings of a run judges it again, without asking"
        else:
            what, words = "asked about another source", f"{name} {str(a)[:40]} (A) and {str(b)[:40]} (B)"
            mend = "what is right may not be the same"
        told.append(f"the runs were {what}: {words}; {mend}")
    return told


def compared(pairs: Sequence[Pair], *, seed: int, resamples: int) -> dict[str, Any]:
    """The tests and differences of some pairs; a difference is None where a run has nothing to measure."""
    differences: dict[str, Any] = {}
    for name, of in _PER_REPLY.items():
        rows = [(x, y) for a, b in pairs if (x := of(a)) is not None and (y := of(b)) is not None]
        differences[name] = _mean_difference(rows, seed, resamples)
    for name, share in _SHARES.items():
        sums = [_Sums(*share(a), *share(b)) for a, b in pairs]
        differences[name] = _difference(sums, _share_difference, _shares(sums), seed, resamples)
    found = {**_rights(pairs, seed=seed, resamples=resamples), "differences": differences}
    names = list(dict.fromkeys(name for a, _ in pairs for name in a.metrics or ()))
    if names:
        found["metrics"] = {
            name: each for name in names if (each := _metric_difference(pairs, name, seed, resamples)) is not None
        }
    return found


def _metric_difference(pairs: Sequence[Pair], name: str, seed: int, resamples: int) -> dict[str, Any] | None:
    """The difference in a suite's own metric; None where it is not told as a number for each reply."""
    rows = [(x, y) for a, b in pairs if (x := _value(a, name)) is not None and (y := _value(b, name)) is not None]
    return _mean_difference(rows, seed, resamples)


def _value(result: Result, name: str) -> float | None:
    """The value of a suite's own metric, where it is a number for one reply."""
    value = (result.metrics or {}).get(name)
    return float(value) if isinstance(value, int | float) else None


def _rights(pairs: Sequence[Pair], *, seed: int, resamples: int) -> dict[str, Any]:
    """Who is right where."""
    right = [(a.right, b.right) for a, b in pairs if a.right is not None and b.right is not None]
    both, neither = right.count((True, True)), right.count((False, False))
    only_a, only_b = right.count((True, False)), right.count((False, True))
    return {
        "questions": len(right),
        "right": {"both": both, "only_a": only_a, "only_b": only_b, "neither": neither},
        "mcnemar_p": float(f"{mcnemar(only_a, only_b):.4g}"),
        "accuracy": _mean_difference([(float(a), float(b)) for a, b in right], seed, resamples),
    }


def lines(comparison: Comparison) -> list[str]:
    """The comparison as lines for people."""
    facts = comparison.facts
    right = facts["right"]
    told = [
        f"A {comparison.names[0]}",
        f"B {comparison.names[1]}",
        f"{facts['suite']}: {facts['pairs']} questions that both answered"
        + (f" ({facts['only_in_a']} only A, {facts['only_in_b']} only B)" if _has_others(facts) else ""),
        f"right: both {right['both']}, only A {right['only_a']}, only B {right['only_b']}, neither {right['neither']}; "
        f"McNemar p = {facts['mcnemar_p']:.3g}",
        "",
        f"{'':<12}{'A':>10}{'B':>10}{'B - A':>10}   95 %; of shares in percentage points",
    ]
    told[2:2] = [f"CAUTION: {each}" for each in cautions(facts)]
    told += [line for name, each in facts["differences"].items() if (line := _row(name, each))]
    told += [_metric_row(name, each) for name, each in facts.get("metrics", {}).items()]
    for group, found in facts.get("groups", {}).items():
        told.append(_row("accuracy", found["accuracy"], f"  {group}"))
    return told


def _has_others(facts: Mapping[str, Any]) -> bool:
    return bool(facts["only_in_a"] or facts["only_in_b"])


def _row(name: str, found: Mapping[str, Any] | None, label: str = "") -> str:
    if found is None:
        return ""
    whole = name in ("tokens", "chars")
    a, b = (
        "?" if value is None else f"{value:.1f}" if whole else f"{100 * value:.1f} %"
        for value in (found["a"], found["b"])
    )
    by, low, high = (  # of shares in percentage points
        "?" if value is None else f"{value if whole else 100 * value:+.1f}"
        for value in (found["by"], *(found["interval"] or (None, None)))
    )
    return f"{label or name.replace('_', ' '):<12}{a:>10}{b:>10}{by:>10}   {low} to {high}"


def _metric_row(name: str, found: Mapping[str, Any]) -> str:
    low, high = (f"{end:+.4f}" for end in found["interval"]) if found["interval"] else ("?", "?")
    return f"{name}: A {found['a']:.4f}, B {found['b']:.4f}, B - A {found['by']:+.4f} ({low} to {high})"


def _names(a: Path, b: Path) -> tuple[str, str]:
    one, other = a.resolve(), b.resolve()
    return (one.name, other.name) if one.name != other.name else (str(a), str(b))


def _difference(
    rows: Sequence[Any],
    statistic: Callable[[Sequence[Any]], float | None],
    values: tuple[float, float] | None,
    seed: int,
    resamples: int,
) -> dict[str, Any] | None:
    if values is None:
        return None
    interval = bootstrap(rows, statistic, seed=seed, resamples=resamples)
    return {
        "a": round(values[0], 4),
        "b": round(values[1], 4),
        "by": round(values[1] - values[0], 4),
        "interval": None if interval is None else [round(interval.low, 4), round(interval.high, 4)],
        "questions": len(rows),
    }


def _mean_difference(rows: Sequence[tuple[float, float]], seed: int, resamples: int) -> dict[str, Any] | None:
    values = (sum(x for x, _ in rows) / len(rows), sum(y for _, y in rows) / len(rows)) if rows else None
    return _difference([y - x for x, y in rows], mean, values, seed, resamples)


def _shares(rows: Sequence[_Sums]) -> tuple[float, float] | None:
    a_of, b_of = sum(row[1] for row in rows), sum(row[3] for row in rows)
    if not a_of or not b_of:
        return None
    return sum(row[0] for row in rows) / a_of, sum(row[2] for row in rows) / b_of


def _share_difference(rows: Sequence[_Sums]) -> float | None:
    found = _shares(rows)
    return None if found is None else found[1] - found[0]
