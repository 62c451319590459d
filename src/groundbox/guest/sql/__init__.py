"""SQL in the sandbox: DuckDB and SQLite over the files of the workdir, in the process that also runs cells.

The standard library only at import time; duckdb and pandas come from the environment when they are used.
"""
