"""The frames of a failure: the program's own in full, the libraries' as counts."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import os
import sysconfig
import traceback
import types
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

SHOWN_PARTS: Final = 24
"""Of more frames, the first and the last half of this number are told."""

_HERE: Final = os.path.dirname(__file__) + os.sep
_STDLIB: Final = tuple({sysconfig.get_path("stdlib") + os.sep, sysconfig.get_path("platstdlib") + os.sep})
_PACKAGES: Final = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scene:
    """Where a failure happened: what is needed to tell it.

    Attributes:
        filename: File name of the source that was run; `line` counts in it.
        files: File names that are the program's own besides those beneath `workdir`.
        namespace: The program's globals.
        environment_packages: Import name to the environments that have it.
    """

    filename: str
    files: Container[str]
    workdir: str
    namespace: dict[str, Any]
    environment_packages: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    known_steps: dict[int, list[Step]] = dataclasses.field(default_factory=dict, repr=False, compare=False)
    """Steps of exceptions by their `id`: a million frames take a second to walk, and four parts ask for them."""

    def owns(self, frame: types.FrameType) -> bool:
        """Whether `frame` runs the program's own code."""
        filename = frame.f_code.co_filename
        if filename == self.filename or filename in self.files or frame.f_globals is self.namespace:
            return True
        return is_beneath(filename, self.workdir) and not any(part in filename for part in _PACKAGES)


class Step(NamedTuple):
    """One entry of a traceback.

    Attributes:
        own: Whether it is the program's code; else `package` says whose it is.
    """

    frame: types.FrameType
    lineno: int | None
    lasti: int
    own: bool
    package: str


def is_beneath(path: str, directory: str) -> bool:
    """Whether the absolute `path` lies in `directory`."""
    return path.startswith(directory.rstrip(os.sep) + os.sep)


def steps_of(exc: BaseException, scene: Scene) -> list[Step]:
    """The traceback, outermost first, without our own frames and the event loop that ran the program."""
    if (known := scene.known_steps.get(id(exc))) is not None:
        return known
    steps = []
    tb = exc.__traceback__
    while tb is not None:
        frame = tb.tb_frame
        own = scene.owns(frame)
        if own or not frame.f_code.co_filename.startswith(_HERE):
            package = "" if own else _package_of(frame)
            steps.append(Step(frame, tb.tb_lineno, tb.tb_lasti, own, package))
        tb = tb.tb_next
    first_own = next((i for i, step in enumerate(steps) if step.own), 0)
    scene.known_steps[id(exc)] = steps[first_own:]
    return scene.known_steps[id(exc)]


def render(steps: Sequence[Step]) -> str:
    """Own frames with their lines and carets, library frames as `… 14 frames in pandas`."""
    half = SHOWN_PARTS // 2
    first: list[Sequence[Step]] = []
    last: collections.deque[Sequence[Step]] = collections.deque()
    left_out = 0
    for run in _runs(steps):
        if len(first) < half:
            first.append(run)
            continue
        last.append(run)
        if len(last) > half:
            left_out += len(last.popleft())
    middle = [f"  … {left_out} frames left out\n"] if left_out else []
    return "".join([*map(_rendered, first), *middle, *map(_rendered, last)])


def _rendered(run: Sequence[Step]) -> str:
    return _repeated(run) if run[0].own else _collapsed(run)


def _runs(steps: Sequence[Step]) -> Iterator[Sequence[Step]]:
    """Neighbours that are told together: library frames, or one line of the program again and again."""
    groups = itertools.groupby(steps, key=lambda s: (s.frame.f_code, s.lineno) if s.own else None)
    return (list(group) for _, group in groups)


def position_of(step: Step) -> tuple[int | None, int | None, int | None, int | None]:
    """Line, end line, column and end column of what the step was evaluating; columns in bytes."""
    if step.lasti < 0:
        return step.lineno, None, None, None
    positions = itertools.islice(step.frame.f_code.co_positions(), step.lasti // 2, None)
    return next(positions, (step.lineno, None, None, None))


def _own(step: Step) -> str:
    code = step.frame.f_code
    _, end_lineno, colno, end_colno = position_of(step)
    summary = traceback.FrameSummary(
        code.co_filename,
        step.lineno,
        code.co_name,
        lookup_line=False,
        end_lineno=end_lineno,
        colno=colno,
        end_colno=end_colno,
    )
    return "".join(traceback.StackSummary.from_list([summary]).format())


def _repeated(run: Sequence[Step]) -> str:
    again = len(run) - 1
    note = f"  … the same line {again} more time{'s' if again > 1 else ''}\n" if again else ""
    return _own(run[0]) + note


def _collapsed(run: Sequence[Step]) -> str:
    packages: list[str] = []
    for step in run:
        if step.package not in packages:
            packages.append(step.package)
    names = ", ".join(packages[:3]) + (f" and {len(packages) - 3} more" if len(packages) > 3 else "")
    return f"  … {len(run)} frame{'s' if len(run) > 1 else ''} in {names}\n"


def _package_of(frame: types.FrameType) -> str:
    filename = frame.f_code.co_filename
    for part in _PACKAGES:
        if part in filename:
            return filename.rpartition(part)[2].split(os.sep)[0].removesuffix(".py")
    if filename.startswith(_STDLIB):
        prefix = next(prefix for prefix in _STDLIB if filename.startswith(prefix))
        return filename[len(prefix) :].split(os.sep)[0].removesuffix(".py")
    name = frame.f_globals.get("__name__")
    if isinstance(name, str) and name:
        return str.__str__(name).split(".")[0]
    return "other code"


def user_step(steps: Sequence[Step]) -> Step | None:
    """The innermost frame of the program: where a reader looks first."""
    return next((step for step in reversed(steps) if step.own), None)
