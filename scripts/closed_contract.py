"""A contract for import-linter: a set of modules imports nothing of ours outside itself, and few other packages.

`forbidden` would need a list of everything else, which a new module is not on. Here the list is of what is inside.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, NamedTuple

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


class Crossing(NamedTuple):
    """An import that leaves the set."""

    importer: str
    imported: str


class ClosedContract(Contract):
    """Options of the contract, as pyproject.toml has them.

    Attributes:
        modules: The set; a package stands for all of its modules.
        packages: Packages of others that the set may import, besides the standard library.
        ignore_imports: Single imports that are left out, as "importer -> imported".
    """

    type_name = "closed"

    modules: Any = fields.ListField(subfield=fields.StringField())
    packages: Any = fields.ListField(subfield=fields.StringField(), required=False, default=[])
    ignore_imports: Any = fields.SetField(subfield=fields.ImportExpressionField(), required=False, default=set())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Return the imports that cross the border; none may."""
        ignored = {(str(each.importer), str(each.imported)) for each in self.ignore_imports}
        found = crossings(graph, self.modules, self.packages)
        left = [each for each in found if tuple(each) not in ignored]
        missing = [name for name in self.modules if name not in graph.modules]
        unused = ignored - {tuple(each) for each in found}
        return ContractCheck(
            kept=not (left or missing or unused),
            metadata={"crossings": left, "missing": missing, "unused": sorted(unused), "graph": graph},
        )

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print each import that crosses the border, with its line."""
        metadata: dict[str, Any] = check.metadata
        for importer, imported in metadata["crossings"]:
            details = metadata["graph"].get_import_details(importer=importer, imported=imported)
            lines = ", ".join(str(each["line_number"]) for each in details)
            output.print_error(f"{importer} imports {imported} (line {lines}), which is outside the set")
        for name in metadata["missing"]:
            output.print_error(f"{name} is in the set, and there is no such module")
        for importer, imported in metadata["unused"]:
            output.print_error(f"{importer} -> {imported} is ignored, and there is no such import")


def members(graph: ImportGraph, modules: Iterable[str]) -> set[str]:
    """Return the names of all modules in the set, those inside its packages too."""
    named = set(modules)
    inside = set(named & graph.modules)
    for name in named & graph.modules:
        if not graph.is_module_squashed(name):
            inside |= graph.find_descendants(name)
    return inside


def crossings(graph: ImportGraph, modules: Iterable[str], packages: Iterable[str] = ()) -> list[Crossing]:
    """Return each import from inside the set to a module that is neither inside nor allowed, in order."""
    inside = members(graph, modules)
    allowed = {*packages, *sys.stdlib_module_names}
    return [
        Crossing(importer, imported)
        for importer in sorted(inside)
        for imported in sorted(graph.find_modules_directly_imported_by(importer))
        if imported not in inside and imported.partition(".")[0] not in allowed
    ]
