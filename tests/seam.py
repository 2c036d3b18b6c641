# SPDX-License-Identifier: MIT
"""Look on, or step in, before each change that this process makes to a disk.

The calls of the system are patched (`os`, files opened to be written, a function of the C
library that ckpt took from it), whoever makes them: ckpt or dulwich. The callback gets the name of
the operation and the path, which is the new one where there are two, and below the folder's where
a handle says which. What the callback itself changes is not reported. Reading is not either.
"""

from __future__ import annotations

import builtins
import io
import os
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Callback = Callable[[str, str], object]

# For scripts in processes of their own: what to run before `seam` can be imported there.
SETUP = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import seam\n"

WRITES = os.O_WRONLY | os.O_RDWR
TEMPORARY = getattr(os, "O_TMPFILE", 0)
# What is called with one path, or a handle; with two paths, the second of which appears; with a
# handle only.
ONE = {
    "mkdir": "mkdir",
    "rmdir": "rmdir",
    "unlink": "unlink",
    "remove": "unlink",
    "chmod": "chmod",
    "utime": "utime",
    "truncate": "truncate",
    "mkfifo": "create",
    "mknod": "create",
    "chown": "chown",
    "lchown": "chown",
}
TWO = {"rename": "rename", "replace": "rename", "link": "link", "symlink": "symlink"}
HANDLE = {
    "fsync": "fsync",
    "fdatasync": "fsync",
    "write": "write",
    "pwrite": "overwrite",
    "writev": "write",
    "pwritev": "overwrite",
    "sendfile": "write",
    "posix_fallocate": "write",
    "ftruncate": "truncate",
    "fchmod": "chmod",
    "fchown": "chown",
}
# A file that is renamed to a name of ckpt's own in the worktree loses its name.
UNFINISHED = ".ckpt-tmp-"

_callback: Callback | None = None
_inside = threading.local()
_paths: dict[int, str] = {}  # what handles were opened as


def observe(callback: Callback | None) -> None:
    """Call this before each change from now on; None ends it."""
    global _callback
    if callback is not None and _callback is None:
        _patch()
    elif callback is None and _callback is not None:
        _restore()
    _callback = callback


@contextmanager
def observing(callback: Callback) -> Iterator[None]:
    observe(callback)
    try:
        yield
    finally:
        observe(None)


@contextmanager
def observed() -> Iterator[list[tuple[str, str]]]:
    """Every change meanwhile: operation and path."""
    seen: list[tuple[str, str]] = []
    with observing(lambda operation, path: seen.append((operation, path))):
        yield seen


@contextmanager
def failing(*operations: str, path: str = "", error: int = 28, after: int = 0) -> Iterator[None]:
    """A disk that is full at these operations on paths that end so, the first few excepted."""
    left = after

    def fail(operation: str, at: str) -> None:
        nonlocal left
        if operation in operations and at.endswith(path):
            left -= 1
            if left < 0:
                raise OSError(error, os.strerror(error), at)

    with observing(fail):
        yield


def about_to(operation: str, path: str) -> None:
    """Tell whoever looks on."""
    if _callback is None or getattr(_inside, "callback", False):
        return
    _inside.callback = True
    try:
        _callback(operation, path)
    finally:
        _inside.callback = False


# -- the patches ---------------------------------------------------------------------------

_original: list[tuple[Any, str, Any]] = []


def _patch() -> None:
    _paths.clear()
    for names, wrapper in ((ONE, _with_path), (TWO, _with_two), (HANDLE, _with_handle)):
        for name, operation in names.items():
            if hasattr(os, name):
                _set(os, name, wrapper(operation, getattr(os, name)))
    _set(os, "sync", _sync(os.sync))
    _set(os, "open", _open(os.open))
    _set(builtins, "open", _open_file(builtins.open))
    _set(io, "open", builtins.open)


def _set(owner: Any, name: str, value: Any) -> None:
    _original.append((owner, name, getattr(owner, name)))
    setattr(owner, name, value)


def _restore() -> None:
    while _original:
        owner, name, value = _original.pop()
        setattr(owner, name, value)


def _with_path(operation: str, call: Callable[..., Any]) -> Callable[..., Any]:
    def observed(path: Any, *rest: Any, **options: Any) -> Any:
        about_to(operation, _below(options.get("dir_fd"), path))
        return call(path, *rest, **options)

    return observed


def _with_two(operation: str, call: Callable[..., Any]) -> Callable[..., Any]:
    handle = "dir_fd" if operation == "symlink" else "dst_dir_fd"

    def observed(source: Any, target: Any, *rest: Any, **options: Any) -> Any:
        if operation == "rename" and os.fsdecode(os.path.basename(target)).startswith(UNFINISHED):
            about_to("unlink", _below(options.get("src_dir_fd"), source))
        else:
            about_to(operation, _below(options.get(handle), target))
        return call(source, target, *rest, **options)

    return observed


def _with_handle(operation: str, call: Callable[..., Any]) -> Callable[..., Any]:
    def observed(fd: int, *rest: Any) -> Any:
        kind = stat.S_IFMT(os.fstat(fd).st_mode)
        if kind == stat.S_IFDIR:
            about_to(f"{operation}-dir" if operation == "fsync" else operation, _below(None, fd))
        elif kind == stat.S_IFREG and (fd in _paths or not operation.endswith("write")):
            about_to(operation, _below(None, fd))
        return call(fd, *rest)

    return observed


def _sync(call: Callable[[], None]) -> Callable[[], None]:
    def observed() -> None:
        about_to("sync", "")
        call()

    return observed


def _open(call: Callable[..., int]) -> Callable[..., int]:
    def observed(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        full = _below(dir_fd, path)
        exists = os.path.lexists(path) if dir_fd is None else False
        if flags & os.O_CREAT and (flags & os.O_EXCL or not exists):
            about_to("create", full)
        elif flags & os.O_TRUNC:
            about_to("truncate", full)
        fd = call(path, flags, mode, dir_fd=dir_fd)
        if TEMPORARY and flags & TEMPORARY == TEMPORARY:
            _paths.pop(fd, None)  # a file without a name
        else:
            _paths[fd] = full
        return fd

    return observed


class _File(io.FileIO):
    """A file that tells before it is written to."""

    def __init__(self, path: str, *details: Any) -> None:
        super().__init__(*details)
        self.path = path

    def write(self, data: Any) -> int:
        about_to("write", self.path)
        return super().write(data)

    def truncate(self, size: int | None = None) -> int:
        about_to("truncate", self.path)
        return super().truncate(size)


def _open_file(call: Callable[..., Any]) -> Callable[..., Any]:
    def observed(
        file: Any,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        closefd: bool = True,
        opener: Any = None,
    ) -> Any:
        rest = (buffering, encoding, errors, newline, closefd, opener)
        if not set(mode) & set("wax+") or (isinstance(file, int) and file not in _paths):
            return call(file, mode, *rest)
        path = _below(None, file)
        if not isinstance(file, int):
            if not os.path.lexists(path):
                about_to("create", path)
            elif "w" in mode:
                about_to("truncate", path)
        raw_mode = mode.replace("b", "").replace("t", "")
        raw = _File(path, file, raw_mode, closefd, opener)
        if buffering == 0:
            return raw
        size = buffering if buffering > 1 else io.DEFAULT_BUFFER_SIZE
        buffered = io.BufferedRandom(raw, size) if "+" in mode else io.BufferedWriter(raw, size)
        if "b" in mode:
            return buffered
        text = io.TextIOWrapper(buffered, encoding, errors, newline, buffering == 1)
        text.mode = mode
        return text

    return observed


def _below(fd: int | None, path: Any) -> str:
    if isinstance(path, int):
        return _paths.get(path, f"handle {path}")
    return os.path.join(_paths.get(fd, "") if fd is not None else "", os.fsdecode(path))
