"""Files that a program left beside the workdir, where nobody will look for them.

/tmp is also the home folder here, so that a report written to `~` or to `/tmp/outputs` ends up in it. Told are files
that look like results: with content, by an ending that results have, and under no name that temporary files have.
Two levels of folders are looked at, and so many entries; the worker tells what is new since it looked last.
"""

import os
import stat
from collections.abc import Iterator

ENDINGS = frozenset(
    {
        *("csv", "tsv", "txt", "md", "json", "jsonl", "xml", "yaml", "html", "htm", "tex", "py", "ipynb", "sql"),
        *("xls", "xlsx", "ods", "docx", "odt", "pptx", "pdf", "parquet", "feather", "arrow", "h5", "npy", "npz"),
        *("pkl", "pickle", "joblib", "db", "sqlite", "sqlite3", "duckdb", "zip", "tar", "gz"),
        *("png", "jpg", "jpeg", "gif", "svg", "webp", "bmp", "tiff", "mp3", "mp4", "wav", "webm"),
    }
)
MOST_ENTRIES = 400
MOST_TOLD = 10
_TEMPORARY = ("tmp", ".", "_", "pip-", "matplotlib")


class Outside:
    """What is new in one folder since the last look."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._seen: dict[str, tuple[int, int]] = {}

    def new(self) -> list[str]:
        """Paths of files made or changed since, at most 10 of them."""
        found = dict(self._files(self._folder, MOST_ENTRIES, deeper=True))
        told = [path for path, stamp in sorted(found.items()) if self._seen.get(path) != stamp]
        self._seen = found
        return told[:MOST_TOLD]

    def _files(self, folder: str, most: int, *, deeper: bool) -> Iterator[tuple[str, tuple[int, int]]]:
        try:
            with os.scandir(folder) as entries:
                for entry, _ in zip(entries, range(most)):  # noqa: B905  entries need not be as many
                    if entry.name.startswith(_TEMPORARY):
                        continue
                    found = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(found.st_mode) and deeper:
                        yield from self._files(entry.path, MOST_ENTRIES // 8, deeper=False)
                    elif stat.S_ISREG(found.st_mode) and found.st_size and _looks_like_a_result(entry.name):
                        yield entry.path, (found.st_mtime_ns, found.st_size)
        except OSError:
            return


def _looks_like_a_result(name: str) -> bool:
    return name.rpartition(".")[2].lower() in ENDINGS and name.isprintable()
