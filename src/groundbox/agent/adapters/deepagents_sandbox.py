"""A sandbox of LangChain's deep agents: `create_deep_agent(backend=GroundboxSandbox())`."""

from __future__ import annotations

import errno
import uuid
from typing import Any, Final

from deepagents.backends.protocol import ExecuteResponse, FileDownloadResponse, FileOperationError, FileUploadResponse
from deepagents.backends.sandbox import BaseSandbox

from groundbox.agent.adapters.workplace import Completed, Workplace
from groundbox.errors import GuestFileError
from groundbox.sandbox.portal import PORTAL, Sandbox

_TIMED_OUT: Final = 124
"""As coreutils' `timeout` has it."""
_ERRORS: Final[dict[int | None, FileOperationError]] = {
    errno.ENOENT: "file_not_found",
    errno.EISDIR: "is_directory",
    errno.EACCES: "permission_denied",
    errno.EPERM: "permission_denied",
    errno.EROFS: "permission_denied",
    errno.ENOTDIR: "invalid_path",
    errno.ENAMETOOLONG: "invalid_path",
    errno.ELOOP: "invalid_path",
    errno.EINVAL: "invalid_path",
}


class GroundboxSandbox(BaseSandbox):
    """One sandbox, made at the first use and ended by `close` or `with`.

    What it raises is groundbox's, `SandboxLost` for example; how a command ends is no exception. The root folder is
    read-only, so that deep agents put aside large results only in a CompositeBackend with another `artifacts_root`.
    """

    def __init__(self, *, sandbox: Sandbox | None = None, **options: Any) -> None:
        """Args:
        sandbox: One to work in, which its owner closes.
        options: Of the sandbox to be made, as `groundbox.Sandbox` takes them.
        """
        self._workplace = Workplace(sandbox, **options)
        self._id = uuid.uuid4().hex

    def __enter__(self) -> GroundboxSandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the sandbox, unless it was given."""
        PORTAL.call(self._workplace.close())

    @property
    def id(self) -> str:
        """Different for each."""
        return self._id

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """Run a line of bash in the workdir; its two streams are one, as they came."""
        return _response(PORTAL.call(self._workplace.run(_in_one_stream(command), wall_s=timeout or None)))

    async def aexecute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """The same without a thread; who is cancelled while it runs stops it."""
        return _response(await PORTAL.wait_for(self._workplace.run(_in_one_stream(command), wall_s=timeout or None)))

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Write files at absolute paths, with the folders above them."""
        return [FileUploadResponse(path=path, error=self._put(path, data)) for path, data in files]

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """Read files at absolute paths."""
        return [self._get(path) for path in paths]

    def _put(self, path: str, data: bytes) -> FileOperationError | str | None:
        if not path.startswith("/"):
            return "invalid_path"
        try:
            PORTAL.call(self._workplace.sandbox.guest_files.write(path, data))
        except GuestFileError as error:
            return _ERRORS.get(error.errno, error.reason)
        return None

    def _get(self, path: str) -> FileDownloadResponse:
        if not path.startswith("/"):
            return FileDownloadResponse(path=path, error="invalid_path")
        try:
            return FileDownloadResponse(path=path, content=PORTAL.call(self._workplace.sandbox.guest_files.read(path)))
        except GuestFileError as error:
            return FileDownloadResponse(path=path, error=_ERRORS.get(error.errno, error.reason))


def _in_one_stream(command: str) -> str:
    """On the same line, so that bash counts lines as the model does."""
    return f"exec 2>&1; {command}"


def _response(done: Completed) -> ExecuteResponse:
    output = "".join(done.texts)
    if done.timed_out:
        output += f"\n[{done.timed_out}]"
    if done.gone:
        output += f"\n[The sandbox ended with the command: {done.gone}]"
    return ExecuteResponse(
        output=output, exit_code=_TIMED_OUT if done.timed_out else done.exit_code, truncated=done.cut
    )
