"""Metrics of several servers as those of one, in Prometheus' text format."""

from __future__ import annotations

import logging

from prometheus_client.parser import text_string_to_metric_families

logger = logging.getLogger(__name__)


def summed(texts: list[str]) -> list[str]:
    """Lines of metrics of several servers as one, in Prometheus' format: sums, but of a start's time the earliest.

    What is not in that format is left out whole, with its server.
    """
    values: dict[str, dict[tuple[str, tuple[tuple[str, str], ...]], float]] = {}
    heads: dict[str, str] = {}
    for text in texts:
        try:
            families = list(text_string_to_metric_families(text))
        except ValueError:
            logger.warning("metrics of a node are in no format that is known")
            continue
        for family in families:
            kind = "counter" if family.type == "counter" else family.type
            about = family.documentation.replace("\\", "\\\\").replace("\n", "\\n")
            heads[family.name] = f"# HELP {family.name} {about}\n# TYPE {family.name} {kind}"
            into = values.setdefault(family.name, {})
            for sample in family.samples:
                at = sample.name, tuple(sorted(sample.labels.items()))
                if family.name.endswith("_started_seconds") or sample.name.endswith("_created"):
                    into[at] = min(into.get(at, sample.value), sample.value)
                else:
                    into[at] = into.get(at, 0.0) + sample.value
    lines = []
    for name, samples in values.items():
        lines.append(heads[name])
        for (sample_name, labels), value in samples.items():
            told = ",".join(f'{label}="{_escaped(each)}"' for label, each in labels)
            lines.append(f"{sample_name}{{{told}}} {value:g}" if told else f"{sample_name} {value:g}")
    return lines


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
