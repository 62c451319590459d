"""The figures of a run: counts and shares over the results that were judged, in all and for each group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from groundbox.learn.evaluation.measures import mean, median, wilson
from groundbox.learn.evaluation.replies import CUT
from groundbox.learn.evaluation.results import Result

UNFINISHED: Final = frozenset({"unfinished", "unfinished-thinking", "too-large"})


def report_of(results: Sequence[Result]) -> dict[str, Any]:
    """All figures; `groups` only where there is more than one."""
    names = list(dict.fromkeys(each.group for each in results))
    found = figures(results)
    if len(names) > 1:
        found["groups"] = {name: figures([each for each in results if each.group == name]) for name in sorted(names)}
    return found


def figures(results: Sequence[Result]) -> dict[str, Any]:
    """Figures of some results; a share is None where it is one of nothing."""
    n, right = len(results), sum(bool(each.right) for each in results)
    graded = any(each.right is None for each in results)  # between right and wrong, so that there is no share
    counted = [each.completion_tokens for each in results if each.completion_tokens]
    interval = None if graded else wilson(right, n)
    return {
        "answered": n,
        "right": right,
        "accuracy": None if graded else _share(right, n),
        "interval": None if interval is None else [_rounded(interval.low), _rounded(interval.high)],
        "reasons": dict(Counter(each.reason for each in results).most_common()),
        "tokens": {
            "mean": _rounded(mean(counted)),
            "median": _rounded(median(counted)),
            "total": sum(counted),
            "prompt": sum(each.prompt_tokens for each in results),
            "counted": len(counted),
        },
        "chars": _rounded(mean([len(each.reply) for each in results])),
        "unfinished": _share(sum(is_unfinished(each) for each in results), n),
        "repeated": _rounded(mean([each.repeated for each in results])),
        "steps": steps_of(results),
    }


def is_unfinished(result: Result) -> bool:
    """Tell whether a reply ended at the limit of its length, or in the middle of thinking."""
    return result.finish == CUT or result.reason in UNFINISHED


def steps_of(results: Sequence[Result]) -> dict[str, Any] | None:
    """Figures of the claims of reasonings; None where no question has a run."""
    with_run = [each for each in results if each.steps is not None or each.no_steps]
    if not with_run:
        return None
    found = [each.steps for each in with_run if each.steps is not None]
    told = sum(each.told for each in found)
    false = [each for each in found if each.first_false is not None]
    follows = Counter(each.follows for each in found)
    said = follows[True] + follows[False]
    return {
        "replies": len(found),
        "with_claims": sum(each.told > 0 for each in found),
        "told": told,
        "borne_out": sum(each.borne_out for each in found),
        "refuted": sum(each.refuted for each in found),
        "truth": _share(sum(each.borne_out for each in found), told),
        "all_true": _share(
            sum(each.told == each.borne_out > 0 for each in found), sum(each.told > 0 for each in found)
        ),
        "with_false": len(false),
        "first_false": _rounded(median([each.first_false or 0 for each in false])),
        "first_false_place": _rounded(median([(each.first_false or 0) / max(1, each.sentences) for each in false])),
        "follows": {"yes": follows[True], "no": follows[False], "share": _share(follows[True], said)},
        "missing": dict(Counter(each.no_steps for each in with_run if each.steps is None).most_common(10)),
    }


def lines(report: Mapping[str, Any]) -> list[str]:
    """The report as lines for people."""
    told = [
        ("suite", f"{report['suite']}, {report['asked']} of {report['questions']} questions"),
        ("accuracy", _accuracy(report)),
        *_metrics(report),
        ("tokens", _tokens(report)),
        ("unfinished", _percent(report["unfinished"])),
        ("repeated", f"{_percent(report['repeated'])} of runs of four words"),
    ]
    steps = report["steps"]
    if steps is not None:
        told += [("step truth", _truth(steps)), ("first false", _first_false(steps)), ("follows", _follows(steps))]
    told += [(f"  {name}", _accuracy(each)) for name, each in report.get("groups", {}).items()]
    told += [(f"  {reason}", str(count)) for reason, count in report["reasons"].items()]
    width = max(len(name) for name, _ in told) + 2
    return [f"{name:<{width}}{words}" for name, words in told]


def _accuracy(found: Mapping[str, Any]) -> str:
    if found["accuracy"] is None:
        return "none: replies are graded" if found["answered"] else "none: nothing was answered"
    low, high = found["interval"]
    return (
        f"{_percent(found['accuracy'])} ({_percent(low)} to {_percent(high)}), {found['right']} of {found['answered']}"
    )


def _metrics(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The suite's own figures, a line for each task and metric."""
    told = []
    for group, figures in report.get("metrics", {}).items():
        for name, each in figures.items():
            error = "" if each.get("stderr") is None else f" ± {each['stderr']:.4f}"
            value = each["value"]
            told.append((f"  {group}", f"{name} {value:.4f}{error}" if isinstance(value, float) else f"{name} {value}"))
    return told


def _tokens(report: Mapping[str, Any]) -> str:
    tokens = report["tokens"]
    if not tokens["counted"]:
        return f"not told; {report['chars'] or 0:.0f} characters a reply"
    return f"{tokens['mean']:.0f} a reply, median {tokens['median']:.0f}, {tokens['total']} in all"


def _truth(steps: Mapping[str, Any]) -> str:
    if not steps["told"]:
        return f"no claim in {steps['replies']} reasonings"
    claims = f"{steps['borne_out']} of {steps['told']} claims borne out, {steps['refuted']} refuted"
    return f"{_percent(steps['truth'])}: {claims}"


def _first_false(steps: Mapping[str, Any]) -> str:
    if not steps["with_false"]:
        return "no step is refuted"
    return f"sentence {steps['first_false']:g} (median) in {steps['with_false']} replies with a refuted step"


def _follows(steps: Mapping[str, Any]) -> str:
    follows = steps["follows"]
    if follows["share"] is None:
        return "no reasoning tells a result"
    told = follows["yes"] + follows["no"]
    return f"{_percent(follows['share'])}: the answer is the result told in {follows['yes']} of {told}"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"


def truth(pairs: Sequence[Mapping[str, int]]) -> float | None:
    """The share of claims that are borne out, over some replies."""
    told = sum(each["told"] for each in pairs)
    return sum(each["borne_out"] for each in pairs) / told if told else None


def _share(part: int, whole: int) -> float | None:
    return _rounded(part / whole) if whole else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
