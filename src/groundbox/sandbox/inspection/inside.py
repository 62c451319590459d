"""Looks at one file, inside a sandbox that holds nothing else: prints what it is as one line of JSON.

Called with the file's path, its media type and the longest edge of a preview in pixels. A picture of the first page,
or of an image, is written to `PREVIEW`. What is printed has `facts`, and `problem` where the file is not what it
should be. Each reader imports what it needs, because imports are most of the time; a library that the environment
lacks leaves that file without facts. Office documents have `packages.py` instead.
"""

import json
import sys
from collections.abc import Callable
from typing import Any, Final

PREVIEW: Final = "preview.png"
_MOST_NAMES: Final = 50
_MOST_NAME: Final = 80
_MOST_PIXELS: Final = 200_000_000


class Broken(Exception):
    """The file is not what its kind says."""


def pdf(path: str, edge: int) -> dict[str, Any]:
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(path)
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower():
            return {"encrypted": True}
        raise Broken(str(error)) from None
    pages = len(document)
    if pages:
        page = document[0]
        picture = page.render(scale=edge / max(page.get_size())).to_pil()
        _keep(picture, edge)
    return {"pages": pages}


def image(path: str, edge: int) -> dict[str, Any]:
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = _MOST_PIXELS
    try:
        with Image.open(path) as picture:
            width, height = picture.size
            picture.draft("RGB", (edge, edge))
            _keep(picture, edge)
    except Image.DecompressionBombError:
        return {}
    except (OSError, SyntaxError, ValueError) as error:
        raise Broken(str(error)) from None
    return {"width": width, "height": height}


def _keep(picture: Any, edge: int) -> None:
    picture.thumbnail((edge, edge), reducing_gap=2.0)
    if picture.mode not in ("RGB", "RGBA", "L", "LA", "P", "1"):
        picture = picture.convert("RGB")
    picture.save(PREVIEW, compress_level=3)


def table(path: str, edge: int, delimiter: str = "") -> dict[str, Any]:
    """CSV: the first row names the columns."""
    import csv
    import io

    with open(path, "rb") as file:
        data = file.read()
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text, other = data.decode(encoding), {"encoding": "UTF-16"} if encoding == "utf-16" else {}
    except UnicodeDecodeError:
        text, other = data.decode("latin-1"), {"encoding": "not UTF-8"}
    csv.field_size_limit(1 << 30)
    rows = (row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter or _delimiter(text)) if row)
    try:
        names = next(rows, [])
        return {"rows": sum(1 for _ in rows), **_columns(names), **other}
    except csv.Error:
        return other


def _delimiter(text: str) -> str:
    line = text.partition("\n")[0]
    return max(",;\t|", key=line.count)


def tabbed(path: str, edge: int) -> dict[str, Any]:
    return table(path, edge, "\t")


def lines(path: str, edge: int) -> dict[str, Any]:
    """JSON Lines."""
    rows = 0
    with open(path, encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            rows += 1
            try:
                json.loads(line, parse_int=str, parse_float=str)
            except (ValueError, RecursionError) as error:
                raise Broken(f"line {number}: {_first(error)}") from None
    return {"rows": rows}


def document(path: str, edge: int) -> dict[str, Any]:
    """JSON; one value for each line is told as rows, because some writers end such files with .json."""
    with open(path, encoding="utf-8-sig") as file:
        try:
            value = json.load(file, parse_int=str, parse_float=str)
        except RecursionError:
            return {}
        except ValueError as error:
            try:
                return lines(path, edge)
            except Broken:
                raise Broken(_first(error)) from None
    if isinstance(value, dict):
        return {"keys": len(value)}
    return {"items": len(value)} if isinstance(value, list) else {}


def parquet(path: str, edge: int) -> dict[str, Any]:
    import pyarrow
    import pyarrow.parquet

    try:
        file = pyarrow.parquet.ParquetFile(path)
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise Broken(_first(error)) from None
    return {"rows": file.metadata.num_rows, **_columns(file.schema_arrow.names)}


def database(path: str, edge: int) -> dict[str, Any]:
    """SQLite."""
    import sqlite3

    with open(path, "rb") as file:
        if file.read(20)[18:] == b"\2\2":  # a write-ahead log holds the newest rows, and is another file
            return {}
    connection = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    try:
        found = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").fetchall()
        names = [name for (name,) in found if not name.startswith("sqlite_")]
        tables = []
        for name in names[:_MOST_NAMES]:
            quoted = name.replace('"', '""')
            rows = connection.execute(f'SELECT count(*) FROM "{quoted}"').fetchone()[0]
            tables.append({"name": name[:_MOST_NAME], "rows": rows})
    except sqlite3.DatabaseError as error:
        raise Broken(str(error)) from None
    left_out = len(names) - len(tables)
    return {"tables": tables, **({"left_out": left_out} if left_out else {})}


def _columns(names: list[str]) -> dict[str, Any]:
    return {"columns": len(names), "column_names": [str(name)[:_MOST_NAME] for name in names[:_MOST_NAMES]]}


def _first(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


READERS: Final[dict[str, Callable[[str, int], dict[str, Any]]]] = {
    "application/pdf": pdf,
    "application/json": document,
    "application/jsonl": lines,
    "application/vnd.apache.parquet": parquet,
    "application/vnd.sqlite3": database,
    "image/gif": image,
    "image/jpeg": image,
    "image/png": image,
    "image/tiff": image,
    "image/webp": image,
    "text/csv": table,
    "text/tab-separated-values": tabbed,
}


def main(path: str, media_type: str, edge: int) -> None:
    answer: dict[str, Any] = {"facts": {}}
    try:
        answer["facts"] = READERS[media_type](path, edge)
    except Broken as error:
        answer["problem"] = str(error)
    except (ImportError, UnicodeDecodeError):
        pass
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
