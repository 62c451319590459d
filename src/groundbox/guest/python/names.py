"""Hints for names that do not exist: variables, attributes, modules."""

from __future__ import annotations

import builtins
import importlib.util
import os
import pkgutil
import re
import sys
import types
from typing import Any, Final

from .fault import Fault, either, listing, nearest
from .frames import is_beneath
from .removed import removed_member

_ALIASES: Final = {
    "np": ("numpy", "import numpy as np"),
    "pd": ("pandas", "import pandas as pd"),
    "plt": ("matplotlib", "import matplotlib.pyplot as plt"),
    "mpl": ("matplotlib", "import matplotlib as mpl"),
    "sns": ("seaborn", "import seaborn as sns"),
    "px": ("plotly", "import plotly.express as px"),
    "go": ("plotly", "import plotly.graph_objects as go"),
    "sp": ("sympy", "import sympy as sp"),
    "sm": ("statsmodels", "import statsmodels.api as sm"),
    "smf": ("statsmodels", "import statsmodels.formula.api as smf"),
    "nx": ("networkx", "import networkx as nx"),
    "stats": ("scipy", "from scipy import stats"),
    "tf": ("tensorflow", "import tensorflow as tf"),
    "nn": ("torch", "from torch import nn"),
    "pl": ("polars", "import polars as pl"),
    "pa": ("pyarrow", "import pyarrow as pa"),
    "plotly": ("plotly", "import plotly"),
    "cv2": ("cv2", "import cv2"),
    "Image": ("PIL", "from PIL import Image"),
    "BeautifulSoup": ("bs4", "from bs4 import BeautifulSoup"),
    "DataFrame": ("pandas", "from pandas import DataFrame"),
    "train_test_split": ("sklearn", "from sklearn.model_selection import train_test_split"),
}
_MEMBERS: Final = {
    "collections": ("Counter", "OrderedDict", "defaultdict", "deque", "namedtuple"),
    "dataclasses": ("dataclass", "field", "asdict"),
    "datetime": ("timedelta", "timezone", "date"),
    "decimal": ("Decimal",),
    "enum": ("Enum", "IntEnum", "auto"),
    "fractions": ("Fraction",),
    "functools": ("lru_cache", "partial", "reduce", "wraps", "cached_property"),
    "io": ("BytesIO", "StringIO"),
    "itertools": ("accumulate", "chain", "combinations", "groupby", "islice", "permutations", "product"),
    "math": ("ceil", "comb", "exp", "factorial", "floor", "gcd", "isclose", "log", "pi", "sqrt"),
    "pathlib": ("Path",),
    "pprint": ("pprint",),
    "random": ("randint", "shuffle"),
    "textwrap": ("dedent",),
    "typing": ("Any", "Callable", "Dict", "Iterable", "List", "Optional", "Set", "Tuple", "Union"),
}
_OTHERS: Final = frozenset(
    {
        *("aiofiles", "aiohttp", "altair", "anthropic", "arrow", "attrs", "beartype", "bokeh", "boto3", "camelot"),
        *("catboost", "celery", "chromadb", "click", "colorama", "cupy", "cvxpy", "dash", "dask", "datasets"),
        *(
            "diffusers",
            "django",
            "dns",
            "docker",
            "duckdb",
            "ephem",
            "faiss",
            "faker",
            "fastapi",
            "feedparser",
            "flask",
        ),
        *(
            "folium",
            "geopandas",
            "gensim",
            "google",
            "gradio",
            "gtts",
            "gurobipy",
            "gymnasium",
            "h5py",
            "holidays",
            "httpx",
        ),
        *("igraph", "imageio", "imblearn", "jax", "jinja2", "joblib", "jsonschema", "keras", "langchain", "librosa"),
        *("lifelines", "lightgbm", "llvmlite", "loguru", "markdown", "mpmath", "mlflow", "moviepy", "mypy", "msgpack"),
        *("mysql", "nltk", "numba", "numexpr", "odf", "openai", "ortools", "orjson", "paramiko", "parsel", "pdfminer"),
        *("pdfplumber", "peewee", "pendulum", "pika", "playwright", "polars", "prophet", "psutil", "psycopg"),
        *("psycopg2", "pulp", "pydantic", "pydub", "pygame", "pymongo", "pymysql", "pyomo", "pypdf", "PyPDF2"),
        *("pyproj", "pyspark", "pytest", "pytesseract", "pytz", "pywt", "qrcode", "rasterio", "rdkit", "redis"),
        *("regex", "reportlab", "requests", "rich", "ruamel", "scrapy", "selenium", "shap", "shapely", "six", "spacy"),
        *("sqlalchemy", "sqlmodel", "starlette", "streamlit", "sympy", "tables", "tabulate", "tensorflow", "textblob"),
        *("tiktoken", "toml", "tomli", "torch", "torchvision", "tornado", "tqdm", "transformers", "typer", "ujson"),
        *("umap", "uvicorn", "vaderSentiment", "weasyprint", "websockets", "werkzeug", "wordcloud", "xarray"),
        *("xgboost", "xlrd", "xlsxwriter", "xmltodict", "yfinance", "zmq"),
    }
)
"""Modules that programs import and that an environment may lack: not one of them is a misspelling of another."""
_LIKE_A_MISSPELLING: Final = 0.8
_NEEDS: Final = re.compile(
    r"Missing optional dependency '([\w.-]+)'"
    r"|`Import ([\w.-]+)` failed"
    r"|accessor requires ([\w.-]+)"
    r"|requires the ([\w.-]+) package"
    r"|tree builder with the features you requested: ([\w.-]+)\."
)
"""How libraries say that they lack one that they can do without."""
_OWN: Final = frozenset(
    {
        *("app", "common", "config", "constants", "core", "data", "functions", "helper", "helpers", "lib", "main"),
        *("model", "models", "module", "my_module", "mymodule", "script", "settings", "solution", "src", "test"),
        *("tests", "tools", "util", "utilities", "utils"),
    }
)
"""Names of people's own files: a package of that name is hardly what is meant."""
_MANY_PACKAGES: Final = frozenset({"azure", "google", "zope"})
_REMOVED_FROM_PYTHON: Final = {
    "asynchat": "use asyncio",
    "asyncore": "use asyncio",
    "cgi": "use urllib.parse, html and email",
    "crypt": "use hashlib",
    "distutils": "use setuptools, shutil or sysconfig",
    "imghdr": "use PIL.Image.open(path).format",
    "imp": "use importlib",
    "pipes": "use subprocess and shlex",
    "smtpd": "use another server",
    "sndhdr": "use wave",
    "telnetlib": "use socket",
}
_ALSO_CALLED: Final = {"opencv": "cv2", "opencv-python-headless": "cv2", "scikit-learn": "sklearn", "pil": "PIL"}
"""What packages are called in everyday words, to the modules that they are imported as."""
_PACKAGE_OF_IMPORT: Final = {
    "Bio": "biopython",
    "Crypto": "pycryptodome",
    "Levenshtein": "levenshtein",
    "MySQLdb": "mysqlclient",
    "OpenGL": "pyopengl",
    "OpenSSL": "pyopenssl",
    "PIL": "pillow",
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "cairo": "pycairo",
    "camelot": "camelot-py",
    "community": "python-louvain",
    "cv2": "opencv-python",
    "dateutil": "python-dateutil",
    "discord": "discord.py",
    "dns": "dnspython",
    "docx": "python-docx",
    "dotenv": "python-dotenv",
    "faiss": "faiss-cpu",
    "ffmpeg": "ffmpeg-python",
    "fitz": "pymupdf",
    "fpdf": "fpdf2",
    "git": "gitpython",
    "github": "pygithub",
    "googleapiclient": "google-api-python-client",
    "grpc": "grpcio",
    "hydra": "hydra-core",
    "imblearn": "imbalanced-learn",
    "jose": "python-jose",
    "jwt": "pyjwt",
    "kafka": "kafka-python",
    "magic": "python-magic",
    "mpl_toolkits": "matplotlib",
    "multipart": "python-multipart",
    "mysql": "mysql-connector-python",
    "nacl": "pynacl",
    "odf": "odfpy",
    "osgeo": "gdal",
    "pkg_resources": "setuptools",
    "pptx": "python-pptx",
    "psycopg2": "psycopg2-binary",
    "pywt": "pywavelets",
    "ruamel": "ruamel.yaml",
    "serial": "pyserial",
    "shapefile": "pyshp",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "skopt": "scikit-optimize",
    "slugify": "python-slugify",
    "socks": "pysocks",
    "speech_recognition": "speechrecognition",
    "tabula": "tabula-py",
    "telegram": "python-telegram-bot",
    "umap": "umap-learn",
    "usb": "pyusb",
    "vaderSentiment": "vadersentiment",
    "websocket": "websocket-client",
    "wx": "wxpython",
    "yaml": "pyyaml",
    "zmq": "pyzmq",
}


def unknown_name(fault: Fault) -> list[str]:
    """NameError: a near name of the live namespace, or the import that is missing."""
    exc = fault.exc
    if isinstance(exc, UnboundLocalError):
        return [
            "The function assigns to this name, so it is local there and had no value yet. "
            "Give it one first, pass it as an argument, or declare it `global` or `nonlocal`."
        ]
    name = getattr(exc, "name", None)
    if not isinstance(name, str):
        return []
    statement = _import_for(name)
    if statement is not None:
        return [f"`{name}` was not imported: add `{statement}`."]
    frame = fault.step.frame if fault.step else None
    known = [*(frame.f_locals if frame else ()), *fault.scene.namespace, *dir(builtins)]
    close = nearest(name, known)
    return [f"Did you mean {either(close)}?"] if close else []


def attribute_of_none(fault: Fault) -> list[str]:
    """AttributeError on None: what came before returned nothing."""
    if not fault.message.startswith("'NoneType' object has no attribute"):
        return []
    return [
        "The value is None. Calls that change their object in place return None "
        "(`list.sort`, `list.append`, pandas with `inplace=True`), and so do a function without "
        "`return` and a search that found nothing (`re.match`, `soup.find`, `dict.get`)."
    ]


def unknown_attribute(fault: Fault) -> list[str]:
    """AttributeError: an API that is gone, a submodule not imported, or a near name."""
    name, owner = getattr(fault.exc, "name", None), getattr(fault.exc, "obj", None)
    if not isinstance(name, str) or owner is None:
        return []
    gone = removed_member(owner, name)
    if gone is not None:
        return [gone]
    if isinstance(owner, types.ModuleType):
        return _unknown_in_module(fault, owner, name)
    if hasattr(type(owner), name):
        return []  # it is there, and failed by itself
    found = _near_attribute(owner, name)
    pandas: Any = sys.modules.get("pandas")
    if pandas is not None and isinstance(owner, pandas.DataFrame):
        found.append(f"Its columns are: {listing(owner.columns)}.")
    return found


def missing_module(fault: Fault) -> list[str]:
    """ModuleNotFoundError: who has the module, or what it might be called."""
    exc = fault.exc
    if not isinstance(exc, ModuleNotFoundError) or not isinstance(exc.name, str):
        return []
    top = exc.name.partition(".")[0]
    if "." in exc.name and _is_importable(top):
        gone = removed_member(sys.modules.get(exc.name.rpartition(".")[0]), exc.name.rpartition(".")[2])
        return [gone or f"`{top}` is installed but has no module `{exc.name}`; it may have moved in this version."]
    environments = fault.scene.environment_packages.get(top, ())
    if environments:
        return [f"`{top}` is in the environment {either(list(environments))}: run the program with that one."]
    if top in _REMOVED_FROM_PYTHON:
        return [f"`{top}` is in Python no more: {_REMOVED_FROM_PYTHON[top]}."]
    spelled = _other_spelling(top)
    return [*spelled, f"`{top}` {_not_installed(top)}.", *([] if spelled else [_how_to_bring(top)])]


def missing_dependency(fault: Fault) -> list[str]:
    """Failures of every kind: a library says that it lacks another one, and so it is."""
    found = _NEEDS.search(fault.message)
    if found is None:
        return []
    named = next(filter(None, found.groups())).lower()
    module = _import_of(named) or named
    return [] if _is_importable(module) else [f"This needs `{module}`, which {_not_installed(module)}."]


def _other_spelling(module: str) -> list[str]:
    """What a module may be meant to be: a package's name in place of its module's, or a misspelling."""
    if module in _OTHERS or module in _PACKAGE_OF_IMPORT:
        return []
    called = _import_of(module)
    if called is not None:
        return [f"The package `{module}` is imported as `{called}`."]
    if module in _ALIASES and _is_importable(_ALIASES[module][0]):
        return [f"It is written `{_ALIASES[module][1]}`."]
    known = set(sys.stdlib_module_names) | {found.name for found in pkgutil.iter_modules()}
    written = (name for name in sorted(known) if not name.startswith("_"))
    close = nearest(module, written, 1, likeness=_LIKE_A_MISSPELLING)
    return [f"Did you mean {either(close)}?"] if close else []


def _import_of(package: str) -> str | None:
    """The module that a package is imported as, where that is another name."""
    folded = package.replace("_", "-").lower()
    return _ALSO_CALLED.get(folded) or next(
        (module for module, name in _PACKAGE_OF_IMPORT.items() if name == folded), None
    )


def _not_installed(module: str) -> str:
    package = _PACKAGE_OF_IMPORT.get(module)
    called = f" (the package is called `{package}`)" if package else ""
    return f"is not installed in this environment{called}"


def _how_to_bring(module: str) -> str:
    if module.lower() in _OWN:
        return f"If `{module}` is a module of your own, its file has to be in the working directory."
    if module in _MANY_PACKAGES:
        return (
            f"Several packages share the name `{module}`; `groundbox environment create` brings the one that is meant."
        )
    package = _PACKAGE_OF_IMPORT.get(module, module)
    command = f"groundbox environment create NAME --from default --requirement {package}"
    return f"`{command}`, outside of the sandbox, makes an environment that has it."


def missing_member(fault: Fault) -> list[str]:
    """ImportError: `from module import name` where the module lacks the name."""
    exc = fault.exc
    if isinstance(exc, ModuleNotFoundError) or not isinstance(exc, ImportError):
        return []
    found = re.match(r"cannot import name '([^']+)' from (?:partially initialized module )?'([^']+)'", fault.message)
    module = sys.modules.get(found[2]) if found else None
    if found is None or module is None:
        return []
    gone = removed_member(module, found[1])
    return [gone] if gone else _unknown_in_module(fault, module, found[1])


def _unknown_in_module(fault: Fault, module: types.ModuleType, name: str) -> list[str]:
    if module.__name__ == "groundbox":
        return [
            "This program runs inside groundbox already, where no further sandbox can be made: run the code itself."
        ]
    shadow = _shadow(fault, module)
    if shadow:
        return [shadow]
    abstract = sys.modules.get(f"{module.__name__}.abc")
    if abstract is not None and name in getattr(abstract, "__all__", ()):
        return [f"`{name}` is in `{abstract.__name__}`."]
    full = f"{module.__name__}.{name}"
    if hasattr(module, "__path__") and _is_importable(full):
        return [f"`{full}` is a module of its own: add `import {full}`."]
    member = module.__dict__.get(module.__name__.rpartition(".")[2])
    if isinstance(member, type) and hasattr(member, name):
        return [f"`{name}` belongs to the class: write `{module.__name__}.{member.__name__}.{name}`."]
    return _near_attribute(module, name)


def _shadow(fault: Fault, module: types.ModuleType) -> str | None:
    file = getattr(module, "__file__", None) or ""
    if not is_beneath(os.path.abspath(file), fault.scene.workdir) or "site-packages" in file:
        return None
    if module.__name__ not in sys.stdlib_module_names and not _PACKAGE_OF_IMPORT.get(module.__name__):
        return None
    name = os.path.basename(file)
    return f"The file {name} in the working directory hides the module `{module.__name__}`: rename it."


def _near_attribute(owner: object, name: str) -> list[str]:
    visible = [attribute for attribute in dir(owner) if name.startswith("_") or not attribute.startswith("_")]
    close = nearest(name, visible)
    return [f"Did you mean {either(close)}?"] if close else []


def _import_for(name: str) -> str | None:
    if name in _ALIASES:
        package, statement = _ALIASES[name]
        return statement if _is_importable(package) else None
    if name == "datetime":
        return "from datetime import datetime"
    for module, members in _MEMBERS.items():
        if name in members:
            return f"from {module} import {name}"
    if name in sys.stdlib_module_names and not name.startswith("_"):
        return f"import {name}"
    return f"import {name}" if len(name) > 2 and _is_installed(name) else None


def _is_importable(name: str) -> bool:
    try:
        return sys.modules[name] is not None if name in sys.modules else importlib.util.find_spec(name) is not None
    except (ImportError, ValueError, AttributeError):
        return False


def _is_installed(name: str) -> bool:
    """Whether a library has this very name; a file of the program does not count."""
    try:
        spec = importlib.util.find_spec(name) if name.isidentifier() else None
    except (ImportError, ValueError, AttributeError):
        return False
    return spec is not None and "site-packages" in (spec.origin or "")
