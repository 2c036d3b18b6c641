# SPDX-License-Identifier: MIT
"""Repository paths, file system paths and JSON, converted in one place.

Inside the repository a path is `bytes` with slashes, relative to the top of the
worktree. Outside it is `str` as Python has it on this file system. In JSON it is text,
and where the bytes are not UTF-8 the exact ones stand beside it in base 64.
"""

from __future__ import annotations

import errno
import os
import stat
from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ckpt.errors import CkptError, UsageError

_FEW = 8
_last_limits: tuple[tuple[bytes, ...], frozenset[bytes]] = (), frozenset()


def to_str(path: bytes) -> str:
    return os.fsdecode(path)


def to_bytes(path: str) -> bytes:
    return os.fsencode(path)


def to_json(path: str | bytes) -> dict[str, str]:
    """`{"path": …}`, with `path_b64` when the name is not UTF-8."""
    raw = os.fsencode(path)
    try:
        return {"path": raw.decode("utf-8")}
    except UnicodeDecodeError:
        encoded = b2a_base64(raw, newline=False).decode("ascii")
        return {"path": raw.decode("utf-8", "replace"), "path_b64": encoded}


def from_json(document: dict[str, Any]) -> bytes:
    """The exact bytes that `to_json` was given."""
    try:
        if "path_b64" in document:
            return a2b_base64(document["path_b64"])
        return str(document["path"]).encode("utf-8", "surrogateescape")
    except (Base64Error, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"not a path: {document!r}") from error


def relative_to_top(path: str, worktree: str, start: str) -> bytes:
    """The repository path of what a user typed in folder `start`; `b""` is the top.

    Links in the folders above are resolved, as git does, but never the last part: a
    symbolic link names itself.
    """
    if not path:
        raise UsageError("empty string is not a valid path", hint="use . for the whole worktree")
    absolute = os.path.normpath(os.path.join(start, path))
    parent = os.path.realpath(os.path.dirname(absolute))
    resolved = os.path.normpath(os.path.join(parent, os.path.basename(absolute)))
    top = os.path.join(worktree, "")
    if not resolved.startswith(top):
        if os.path.realpath(resolved) == worktree:
            return b""
        raise UsageError(
            f"'{path}' is outside the worktree at '{worktree}'",
            hint="name a path inside it, relative to this folder",
        )
    if absolute.startswith(top) and absolute != resolved:
        raise UsageError(
            f"'{path}' is beyond a symbolic link", hint="name the path without the link"
        )
    relative = os.fsencode(resolved[len(top) :])
    if b".git" in (part.lower() for part in relative.split(b"/")):
        raise UsageError(f"'{path}' is inside a git dir", hint="name a path of the worktree")
    return relative


def folders_above(path: bytes) -> Iterator[bytes]:
    """The folders that a path lies in, the nearest first; the top is not named."""
    folder = path.rpartition(b"/")[0]
    while folder:
        yield folder
        folder = folder.rpartition(b"/")[0]


def folders_of(paths: Iterable[bytes]) -> set[bytes]:
    """Every folder that any of the paths lies in."""
    found: set[bytes] = set()
    for path in paths:
        for folder in folders_above(path):
            if folder in found:
                break
            found.add(folder)
    return found


def is_within(path: bytes, limits: tuple[bytes, ...]) -> bool:
    """True if a path is one of `limits` or below one; an empty limit holds everything."""
    if len(limits) > _FEW:
        return _is_within_many(path, limits)
    return any(not limit or path == limit or path.startswith(limit + b"/") for limit in limits)


def _is_within_many(path: bytes, limits: tuple[bytes, ...]) -> bool:
    """The same where each limit cannot be tried for each of many paths."""
    global _last_limits
    known, found = _last_limits
    if known is not limits:
        found = frozenset(limits)
        _last_limits = limits, found
    return b"" in found or path in found or any(folder in found for folder in folders_above(path))


# -- Which project a file belongs to, for programs that are told of files and not of projects

# Any of these, a file or a folder, makes the folder that it is in the top of a project.
MARKERS = (
    *(".git", ".hg"),
    *("pyproject.toml", "package.json", "Cargo.toml", "go.mod", "pom.xml", "Gemfile", "Makefile"),
)


def project_root(path: str | os.PathLike[str]) -> str | None:
    """The nearest folder around a path, or the path itself, that is the top of a project.

    None if there is none below the home folder, `/` and the next border of a file system,
    none of which is ever a project. The path itself need not exist.
    """
    folder = _nearest_folder(os.path.abspath(path))
    home = os.path.join(os.path.realpath(os.path.expanduser("~")), "")
    device = os.stat(folder).st_dev
    while not home.startswith(os.path.join(folder, "")):
        if any(os.path.lexists(os.path.join(folder, marker)) for marker in MARKERS):
            return folder
        folder = os.path.dirname(folder)
        if os.stat(folder).st_dev != device:
            return None
    return None


def _nearest_folder(path: str) -> str:
    """The folder that a path is, or the first above it that is there, without links."""
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    return os.path.realpath(path)


# -- By which stat data a file is known to be the one that it was, with the content that it had


def identity(status: os.stat_result) -> tuple[int, ...]:
    """What changes when a file's content or mode does."""
    return (*renamed_identity(status), status.st_ctime_ns)


def renamed_identity(status: os.stat_result) -> tuple[int, ...]:
    """The same of a file that was given another name meanwhile, which changes a time."""
    return (status.st_dev, status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns)


# -- Look at paths, and never through a link

# A file with holes can be larger than all memory. Git hears nothing of rules from 100 MB on, and
# takes no longer file for a `.git` that leads elsewhere.
LARGEST_TEXT = 16 << 20
_LARGEST_GITFILE = 1 << 20

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# On the way a folder need not be readable, where the system knows handles for that.
_STEP_FLAGS = _FOLDER_FLAGS | getattr(os, "O_PATH", 0)
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

# By these git knows a git dir, whatever its name.
IN_GIT_DIR = frozenset((b"HEAD", b"objects", b"refs"))


Child = os.DirEntry[bytes]


def children(folder: bytes) -> list[os.DirEntry[bytes]]:
    """What is in a folder, in no order."""
    with os.scandir(folder) as listing:
        return list(listing)


def lstat(path: bytes) -> os.stat_result:
    return os.lstat(path)


def readlink(path: bytes) -> bytes:
    """Where a link leads that is no further than its own name says."""
    with _folder_of(path) as (handle, name):
        return os.readlink(name, dir_fd=handle)


def open_file(path: bytes) -> int:
    """A handle to read from; never through a link, and without waiting for a pipe's writer."""
    fd = os.open(path, _FILE_FLAGS)
    if _place_of(fd) == path:
        return fd
    os.close(fd)
    with _folder_of(path) as (handle, name):
        return os.open(name, _FILE_FLAGS, dir_fd=handle)


def _place_of(fd: int) -> bytes | None:
    """The path at which an open file is; None where the system does not tell."""
    try:
        return os.readlink(b"/proc/self/fd/%d" % fd)
    except OSError:
        return None


def read_plain_file(path: bytes, most: int = LARGEST_TEXT) -> bytes | None:
    """A file's content, if it is one and no longer; git follows no link to a `.gitignore`."""
    try:
        fd = open_file(path)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None
        with open(fd, "rb", closefd=False) as file:
            text = file.read(most + 1)
            return text if len(text) <= most else None
    except OSError:
        return None
    finally:
        os.close(fd)


def is_nested_repository(path: bytes) -> bool:
    """True if a folder is a repository of its own: a `.git` file, or a git dir in `.git`."""
    dot_git = os.path.join(path, b".git")
    try:
        status = lstat(dot_git)
    except OSError:
        return False
    if stat.S_ISDIR(status.st_mode) or stat.S_ISLNK(status.st_mode):
        try:
            lstat(os.path.join(dot_git, b"HEAD"))
        except OSError:
            return False
        return True
    text = read_plain_file(dot_git, _LARGEST_GITFILE)
    return text is not None and text.startswith(b"gitdir:")


def is_repository(path: bytes) -> bool:
    """True of such a folder, and of a git dir under any name."""
    if is_nested_repository(path):
        return True
    try:
        return all(lstat(os.path.join(path, name)) for name in sorted(IN_GIT_DIR))
    except OSError:
        return False


@contextmanager
def _folder_of(path: bytes) -> Iterator[tuple[int, bytes]]:
    """A handle on the folder that a path is in, reached without a link, and the last name."""
    folder, name = os.path.split(path)
    handle = _quickly_opened(folder)
    if handle is None:
        handle = os.open(b"/" if path.startswith(b"/") else b".", _STEP_FLAGS)
    else:
        folder = b""
    try:
        for part in filter(None, folder.split(b"/")):
            handle, behind = _step(handle, part), handle
            os.close(behind)
        yield handle, name
    finally:
        os.close(handle)


def _quickly_opened(folder: bytes) -> int | None:
    """A handle on a folder, if the system tells that no link is on the way to it."""
    try:
        handle = os.open(folder, _STEP_FLAGS)
    except OSError:
        return None
    if _place_of(handle) == folder:
        return handle
    os.close(handle)
    return None


def _step(handle: int, folder: bytes) -> int:
    try:
        return os.open(folder, _STEP_FLAGS, dir_fd=handle)
    except NotADirectoryError:
        if stat.S_ISLNK(os.stat(folder, dir_fd=handle, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), folder) from None
        raise


# -- The user's folders, by the XDG rules

GUARD_NOTES = "guarded"  # the file in a private folder in which the guard notes what it saved for


def home_dir(env: Mapping[str, str]) -> str:
    home = env.get("HOME")
    if not home:
        raise CkptError("$HOME is not set", hint="set HOME to your home folder, then try again")
    return home


def config_home(env: Mapping[str, str]) -> str:
    return env.get("XDG_CONFIG_HOME") or os.path.join(home_dir(env), ".config")


def data_home(env: Mapping[str, str]) -> str:
    return env.get("XDG_DATA_HOME") or os.path.join(home_dir(env), ".local", "share")


def data_dir(env: Mapping[str, str]) -> str:
    """The folder for what ckpt installs, and stores, for a user."""
    return os.path.join(data_home(env), "ckpt")
