"""Values as MIME bundles: all the forms a value has, each checked and of bounded size.

What the value's own methods return is a claim of the program: a method may raise,
return the wrong type or a gigabyte. Such a form is left out, and `text/plain` says so.
"""

from __future__ import annotations

import base64
import binascii
import functools
import importlib
import io
import itertools
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from . import figures, tables

ITEM_BYTES: Final = 8 * 1024 * 1024
"""Each form of a value longer than this is replaced by a note in `text/plain` that says its size."""

_MOST_DEPTH: Final = 60
_LARGE: Final = 32 * 1024
_SCANS: Final = 6
SHOWN_ITEMS: Final = 1000
"""A longer list, tuple, set or dict shows this many items and the number of those left out."""

Bundle = dict[str, Any]

_SCALARS: Final = frozenset({int, bool, str, bytes, complex})
_METHODS: Final = (
    ("text/html", "_repr_html_"),
    ("text/markdown", "_repr_markdown_"),
    ("text/latex", "_repr_latex_"),
    ("image/svg+xml", "_repr_svg_"),
    ("image/png", "_repr_png_"),
    ("image/jpeg", "_repr_jpeg_"),
    ("application/pdf", "_repr_pdf_"),
    ("application/json", "_repr_json_"),
    ("application/javascript", "_repr_javascript_"),
)
_BRACKETS: Final[dict[type, tuple[str, str]]] = {
    list: ("[", "]"),
    tuple: ("(", ")"),
    dict: ("{", "}"),
    set: ("{", "}"),
    frozenset: ("frozenset({", "})"),
}
_CANARY: Final = "_repr_of_something_that_answers_to_any_name_"


class _Unfit(Exception):
    """A form that cannot be shown; the message says why."""


class _Form(NamedTuple):
    mime: str
    content: Any
    source: str


class Bundler:
    """Makes bundles. With IPython's shell, printers registered there take part."""

    def __init__(self, shell: Any = None) -> None:
        self.shell = shell

    def __call__(self, value: Any) -> Bundle:
        """The bundle of `value`; `text/plain` is always in it. Empty if the value showed itself."""
        if type(value) in _SCALARS:
            return clean({"text/plain": self._text(value)})
        try:
            return self._all_forms(value)
        except KeyboardInterrupt:
            raise
        except BaseException as fault:
            return {"text/plain": f"<a value of type {_type_name(value)} that cannot be shown: {_brief(fault)}>"}

    def _all_forms(self, value: Any) -> Bundle:
        if _shows_itself(value):
            return {}
        notes: list[str] = []
        forms: Bundle = {}
        for form in self._forms(value, notes):
            if form.mime not in forms and form.content is not None:
                _put(forms, form, notes)
        text = forms.pop("text/plain", None)
        if text is None:
            text = self._text(value)
        return _with_notes({"text/plain": text, **forms}, notes)

    def _forms(self, value: Any, notes: list[str]) -> Iterator[_Form]:
        """Forms of the value, the most telling source first. Faults are noted, never raised."""
        for special in (_table_forms, _figure_forms, _plotly_forms):
            yield from _guarded(special, value, notes)
        yield from _guarded(self._registered_forms, value, notes)
        yield from _guarded(_mimebundle_forms, value, notes)
        if isinstance(value, type) or tables.is_table(value):
            return
        has_picture = False
        for mime, name in _METHODS:
            method = _method(value, name)
            if method is None or (has_picture and mime == "image/jpeg"):
                continue
            for form in _guarded(functools.partial(_called, method, mime), name, notes):
                has_picture = has_picture or (form.mime == "image/png" and form.content is not None)
                yield form

    def _registered_forms(self, value: Any) -> Iterator[_Form]:
        if self.shell is None:
            return
        for mime, formatter in self.shell.display_formatter.formatters.items():
            if mime == "text/plain" or not (formatter.type_printers or formatter.deferred_printers):
                continue
            try:
                printer = formatter.lookup(value)
            except KeyError:
                continue
            yield from _called(functools.partial(printer, value), mime, "a registered formatter")

    def _text(self, value: Any) -> str:
        try:
            return _exact(self._pretty(value))
        except KeyboardInterrupt:
            raise
        except BaseException as fault:
            return f"<{_type_name(value)} object; its __repr__ raised {_brief(fault)}>"

    def _pretty(self, value: Any) -> str:
        if self.shell is None or type(value) in _SCALARS:
            return _text_of(value)
        pretty: Any = importlib.import_module("IPython.lib.pretty")
        plain = self.shell.display_formatter.formatters["text/plain"]
        stream = io.StringIO()
        printer = pretty.RepresentationPrinter(
            stream,
            plain.verbose,
            plain.max_width,
            plain.newline,
            max_seq_length=plain.max_seq_length,
            singleton_pprinters=plain.singleton_printers,
            type_pprinters=plain.type_printers,
            deferred_pprinters=plain.deferred_printers,
        )
        printer.pretty(value)
        printer.flush()
        return stream.getvalue()


def clean(data: Any) -> Bundle:
    """A bundle that a program made itself, checked like any other."""
    if not isinstance(data, dict):
        return {"text/plain": f"(a display of type {type(data).__name__}, not a MIME bundle, was left out)"}
    forms: Bundle = {}
    notes: list[str] = []
    for mime, content in data.items():
        if isinstance(mime, str) and content is not None:
            _put(forms, _Form(mime, content, "the program"), notes)
    return _with_notes(forms, notes)


def _put(forms: Bundle, form: _Form, notes: list[str]) -> None:
    try:
        forms[form.mime] = _checked(form)
    except _Unfit as why:
        notes.append(f"({form.mime} left out: {why})")
    except KeyboardInterrupt:
        raise
    except BaseException as fault:
        notes.append(f"({form.mime} left out: {_brief(fault)})")


def _with_notes(forms: Bundle, notes: list[str]) -> Bundle:
    text = forms.get("text/plain")
    if isinstance(text, str) and len(text) > ITEM_BYTES // 4 and len(text.encode()) > ITEM_BYTES:
        notes.insert(0, f"({len(text.encode())} bytes of text left out: over {ITEM_BYTES} bytes)")
        text = None
    if notes:
        text = "\n".join(notes if text is None else [text, *notes])
    return forms if text is None else {**forms, "text/plain": text}


def _checked(form: _Form) -> Any:
    mime, content, source = form
    if mime == "application/json" or mime.endswith("+json"):
        return _json(content, source)
    if mime.startswith(("image/", "audio/", "video/", "font/")) and mime != "image/svg+xml":
        return _base64(content, source)
    if mime in ("application/pdf", "application/octet-stream"):
        return _base64(content, source)
    if not isinstance(content, str):
        raise _Unfit(f"{source} returned {type(content).__name__}, not str")
    text = _exact(content)
    if mime != "text/plain":
        _fits(len(text.encode()))
    return text


def _json(content: Any, source: str) -> Any:
    try:
        text = json.dumps(content, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as fault:
        raise _Unfit(f"{source} returned what JSON cannot hold: {fault}") from None
    _fits(len(text))
    plain = json.loads(text)
    if _is_too_deep(plain, len(text)):
        raise _Unfit("it is nested too deeply, or too much of it is deep inside")
    return plain


def _is_too_deep(plain: Any, size: int) -> bool:
    """Whether the host would refuse the frame for it: what it scans, level by level, is bounded (guestjson.py)."""
    level = [plain] if isinstance(plain, list | dict) else []
    large = level if size > _LARGE else []
    scanned = 0
    for _ in range(_MOST_DEPTH):
        level = _containers_in(level)
        sizes = [(each, len(json.dumps(each))) for each in _containers_in(large)]
        large = [each for each, size_of_it in sizes if size_of_it > _LARGE]
        scanned += sum(size_of_it for _, size_of_it in sizes if size_of_it > _LARGE)
        if not level or scanned > _SCANS * size:
            break
    return bool(level)


def _containers_in(values: list[Any]) -> list[Any]:
    inside = (item for each in values for item in (each.values() if isinstance(each, dict) else each))
    return [item for item in inside if isinstance(item, list | dict)]


def _base64(content: Any, source: str) -> str:
    if isinstance(content, (bytes, bytearray, memoryview)):
        _fits(len(content))
        return base64.b64encode(content).decode()
    if not isinstance(content, str):
        raise _Unfit(f"{source} returned {type(content).__name__}, not bytes")
    _fits(len(content) * 3 // 4)
    try:
        return base64.b64encode(base64.b64decode("".join(content.split()), validate=True)).decode()
    except (binascii.Error, ValueError):
        raise _Unfit(f"{source} returned text that is not base64") from None


def _fits(size_bytes: int) -> None:
    if size_bytes > ITEM_BYTES:
        raise _Unfit(f"{size_bytes} bytes, over {ITEM_BYTES}")


def _exact(text: str) -> str:
    """A plain `str` that UTF-8 can hold, whatever a subclass pretends."""
    plain = str.__str__(text)
    return plain if plain.isascii() else plain.encode(errors="backslashreplace").decode()


def _guarded(source: Callable[[Any], Iterator[_Form]], value: Any, notes: list[str]) -> Iterator[_Form]:
    """The forms from `source`, and a note where it fails. For a method, `value` is its name."""
    try:
        yield from source(value)
    except _Unfit as why:
        notes.append(f"({why})")
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as fault:
        name = value if isinstance(source, functools.partial) else "a rich form"
        notes.append(f"({name} left out: it raised {_brief(fault)})")


def _called(method: Callable[[], Any], mime: str, source: str) -> Iterator[_Form]:
    content = method()
    if isinstance(content, tuple) and len(content) == 2:
        content = content[0]
    yield _Form(mime, content, source)


def _mimebundle_forms(value: Any) -> Iterator[_Form]:
    method = _method(value, "_repr_mimebundle_")
    if method is None:
        return
    content = method(include=None, exclude=None)
    if isinstance(content, tuple) and content:
        content = content[0]
    if not isinstance(content, dict):
        raise _Unfit(f"_repr_mimebundle_ returned {type(content).__name__}, not dict")
    for mime, item in content.items():
        if isinstance(mime, str):
            yield _Form(mime, item, "_repr_mimebundle_")


def _table_forms(value: Any) -> Iterator[_Form]:
    if tables.is_table(value):
        yield _Form("text/plain", repr(value), "repr")
        yield _Form("text/html", tables.html(value), "_repr_html_")
        yield _Form(tables.MIME, tables.data_resource(value), "the table")


def _figure_forms(value: Any) -> Iterator[_Form]:
    if figures.is_figure(value):
        yield _Form("image/png", figures.png(value), "savefig")
        from . import figure_data  # with a figure numpy is there, which this reads

        if (chart := figure_data.described(value)) is not None:
            yield _Form(figure_data.MIME, chart, "the figure")


def _plotly_forms(value: Any) -> Iterator[_Form]:
    plotly: Any = sys.modules.get("plotly.basedatatypes")
    if plotly is None or not issubclass(type(value), plotly.BaseFigure):
        return
    yield _Form("text/plain", _plotly_text(value), "the figure")
    data = json.loads(value.to_json())
    yield _Form("application/vnd.plotly.v1+json", {"data": data["data"], "layout": data["layout"]}, "the figure")
    from . import charts  # with it come hashlib and libcrypto, which every fork of a small template would copy

    yield _Form("text/html", charts.page(value), "the figure")
    if charts.can_draw():
        yield _Form("image/png", _plotly_picture(value), "kaleido")


def _plotly_picture(figure: Any) -> bytes:
    from . import charts

    width, height = figure.layout.width, figure.layout.height
    try:
        return charts.picture(figure, "png", width=width or 700, height=height or 500)
    except charts.ChartError as why:
        raise _Unfit(f"image/png left out: {why}") from None


def _plotly_text(figure: Any) -> str:
    kinds = [str(trace.type) for trace in figure.data]
    counted = ", ".join(f"{len(list(group))} {kind}" for kind, group in itertools.groupby(sorted(kinds)))
    title = figure.layout.title.text
    return f"plotly figure: {counted or 'no traces'}" + (f"; title {title!r}" if title else "")


def _shows_itself(value: Any) -> bool:
    """Let a value with `_ipython_display_` show itself, except plotly's, which wants a browser."""
    if type(value).__module__.startswith("plotly."):
        return False
    method = _method(value, "_ipython_display_")
    if method is None:
        return False
    try:
        method()
    except NotImplementedError:
        return False
    return True


def _method(value: Any, name: str) -> Any:
    """The value's method `name`, unless it is a class or answers to any name."""
    if isinstance(value, type):
        return None
    try:
        method = getattr(value, name, None)
        if method is None or getattr(value, _CANARY, None) is not None:
            return None
    except KeyboardInterrupt:
        raise
    except BaseException:
        return None
    return method if callable(method) else None


def _text_of(value: Any) -> str:
    """`repr`, with long containers shortened to their first items and a count."""
    kind = type(value)
    if kind not in _BRACKETS or len(value) <= SHOWN_ITEMS:
        return repr(value)
    first = itertools.islice(value.items() if kind is dict else value, SHOWN_ITEMS)
    shown = repr((dict if kind is dict else list)(first))[1:-1]
    opening, closing = _BRACKETS[kind]
    return f"{opening}{shown}, … {len(value) - SHOWN_ITEMS} more{closing}"


def _type_name(value: Any) -> str:
    name: str = type.__dict__["__name__"].__get__(type(value))
    return name


def _brief(fault: BaseException) -> str:
    try:
        text = _exact(str(fault))
    except BaseException:
        text = "(its message could not be had)"
    return f"{_type_name(fault)}: {text[:200]}"
