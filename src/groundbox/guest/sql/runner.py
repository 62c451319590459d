"""Carries out SQL orders of the host in process 1 of the sandbox, so that tables live as long as variables do."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from .card import asks_for_card, render
from .describing import tables_of
from .duck import DuckDB
from .failure import failure_of
from .frames import Variables
from .given import Given, result_behind
from .lite import SQLite
from .result import Result
from .statement import Statement
from .watch import Watch

_ENGINES: Final = {"duckdb": DuckDB, "sqlite": SQLite}


class SqlRunner:
    """One sandbox's SQL: an engine for each dialect, made at its first use."""

    def __init__(self, namespace: Callable[[], dict[str, Any]], workdir: str, *, is_copied: bool = False) -> None:
        """Args:
        namespace: Gives the variables of Python cells, which queries can read and where results go.
        is_copied: Whether this sandbox is one that can be copied, so that no thread may outlive a query.
        """
        self._is_copied = is_copied
        self.variables = Variables(namespace)
        self._workdir = workdir
        self._engines: dict[str, Any] = {}
        self._given: Result | None = None
        self._statement: Statement | None = None
        self._watch = Watch(self._interrupt)

    def run(self, order: Mapping[str, Any], descriptors: Sequence[int]) -> dict[str, Any]:
        """Run all statements of a source, or take what the host brought; returns as cells do, whatever happens."""
        watch = self._watch
        engine, self._statement = None, None
        try:
            with watch:
                if order.get("given"):
                    brought = result_behind(descriptors[0])
                    return _done(value=brought if isinstance(brought, dict) else self._hand_over(brought).told())
                engine = self._engine(order)
                if asks_for_card(order["source"]):
                    return _done(value={"text/plain": render(list(tables_of(engine)), order["max_tokens"])})
                return _done(value=self._statements(engine, order["source"], aside=bool(order.get("aside"))))
        except KeyboardInterrupt:
            return _done(interrupted=True)
        except Given as given:
            return _done(error=given.failure)
        except Exception as error:
            if watch.heard:
                return _done(interrupted=True)
            return _done(error=self._failure(error, order["source"], engine))

    def let_go(self) -> None:
        """Have no threads and pipes of our own until the next run, so that the sandbox can be copied."""
        self._watch.let_go()

    def _engine(self, order: Mapping[str, Any]) -> Any:
        dialect = order["dialect"]
        if dialect not in self._engines:
            limits = order["limits"]
            self._engines[dialect] = _ENGINES[dialect](
                self._workdir,
                self.variables,
                memory_bytes=limits["memory_bytes"],
                process_count=1 if self._is_copied else limits["process_count"],
            )
        return self._engines[dialect]

    def _interrupt(self) -> None:
        for engine in list(self._engines.values()):
            engine.interrupt()

    def _statements(self, engine: Any, source: str, *, aside: bool) -> dict[str, Any] | None:
        result, done = None, []
        if isinstance(engine, DuckDB):
            engine.take_changes()  # what a statement that failed has left
        os.chdir(self._workdir)
        for statement in engine.statements(source):
            self._statement = statement
            outcome = engine.execute(statement)
            if isinstance(outcome, Result):
                result = outcome
            else:
                done.append(outcome)
        changes = engine.take_changes() if isinstance(engine, DuckDB) else []
        if result is not None:
            return (result if aside else self._hand_over(result))._replace(changes=changes).told()
        return {"text/plain": "\n".join(done)} if done else None

    def _failure(self, error: BaseException, source: str, engine: Any) -> dict[str, Any]:
        """Hints ask the engine once more, which may take long: an interrupt leaves them out."""
        try:
            with self._watch:
                return failure_of(error, source, engine, self._statement)
        except (Exception, KeyboardInterrupt):
            return failure_of(error, source, None, self._statement)

    def _hand_over(self, result: Result) -> Result:
        """Let the next Python cell find the frame; a variable `result` of the program's own is left alone."""
        names = ["_sql"]
        if self.variables.is_free("result", self._given):
            names.append("result")
            result = result._replace(name="result")
        self.variables.owe(names, result)
        self._given = result
        return result


def _done(
    *, value: dict[str, Any] | None = None, error: dict[str, Any] | None = None, interrupted: bool = False
) -> dict[str, Any]:
    ok = error is None and not interrupted
    return {"ok": ok, "value": value, "error": error, "interrupted": interrupted}
