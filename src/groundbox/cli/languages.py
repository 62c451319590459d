"""`groundbox languages`: what can be run, and what is missing for the rest."""

from __future__ import annotations

import json

import click

from groundbox.cli.ending import ends_tidily
from groundbox.sandbox.languages import listed


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line on stdout.")
@ends_tidily
def languages(*, as_json: bool) -> int:
    """Lists the languages, with their modes and the way to get those that are not installed.

    `groundbox doctor` also runs a program of each.
    """
    for each in listed():
        missing = each.missing
        if as_json:
            needs = {"needs": missing.needs, "advice": missing.advice} if missing else {}
            print(json.dumps({"language": each.name, "modes": each.modes, "installed": missing is None, **needs}))
            continue
        modes = ", ".join(each.modes)
        print(f"{each.name:<12} {modes}" + (f"\n{'':<12} not installed: {missing.advice}" if missing else ""))
    return 0
