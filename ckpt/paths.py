# SPDX-License-Identifier: MIT
"""Convert paths between repository, file system and JSON, and read files without following links.

A repository path is `bytes` with slashes, relative to the top of the worktree. A file system
path is `str` with surrogate escapes. In JSON it is text, with the exact bytes in base64 if they
are not UTF-8.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import sys
from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from ckpt.errors import CkptError, UsageError

to_str = os.fsdecode
to_bytes = os.fsencode


def to_json(path: str | bytes) -> dict[str, str]:
    """Return `{"path": …}`, with `path_b64` if the path is not UTF-8."""
    raw = os.fsencode(path)
    try:
        return {"path": raw.decode("utf-8")}
    except UnicodeDecodeError:
        encoded = b2a_base64(raw, newline=False).decode("ascii")
        return {"path": raw.decode("utf-8", "replace"), "path_b64": encoded}


def from_json(document: dict[str, Any]) -> bytes:
    """Return the exact bytes of a path converted by `to_json`."""
    try:
        if "path_b64" in document:
            return a2b_base64(document["path_b64"])
        return str(document["path"]).encode("utf-8", "surrogateescape")
    except (Base64Error, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"not a path: {document!r}") from error


def relative_to_top(path: str, worktree: str, start: str) -> bytes:
    """Convert a path typed in directory `start` to a repository path; `b""` is the top.

    Links are resolved in every component but the last, as git does.
    """
    if not path:
        raise UsageError("empty string is not a valid path", hint="use . for the whole worktree")
    absolute = os.path.normpath(os.path.join(start, path))
    parent, name = os.path.split(absolute)
    resolved = os.path.normpath(os.path.join(os.path.realpath(parent), name))
    top = os.path.join(worktree, "")
    if not resolved.startswith(top):
        if os.path.realpath(resolved) == worktree:
            return b""
        problem = f"outside the worktree at '{worktree}'"
    elif absolute.startswith(top) and absolute != resolved:
        problem = "beyond a symbolic link"
    elif ".git" in resolved[len(top) :].lower().split("/"):
        problem = "inside a git dir"
    else:
        return os.fsencode(resolved[len(top) :])
    raise UsageError(f"'{path}' is {problem}", hint="name a path inside the worktree")


def folders_above(path: bytes) -> Iterator[bytes]:
    """Yield the directories above a path, nearest first, without the top."""
    folder = path.rpartition(b"/")[0]
    while folder:
        yield folder
        folder = folder.rpartition(b"/")[0]


def folders_of(paths: Iterable[bytes]) -> set[bytes]:
    """Return the directories above any of the paths."""
    found: set[bytes] = set()
    for path in paths:
        for folder in folders_above(path):
            if folder in found:
                break
            found.add(folder)
    return found


def is_within(path: bytes, limits: Collection[bytes]) -> bool:
    """Return whether a path is one of `limits` or below one; `b""` contains every path."""
    if path in limits or b"" in limits:
        return True
    return any(folder in limits for folder in folders_above(path))


# -- The project that a file belongs to

# A directory that contains any of these is the top of a project.
MARKERS = (
    *(".git", ".hg"),
    *("pyproject.toml", "package.json", "Cargo.toml", "go.mod", "pom.xml", "Gemfile", "Makefile"),
)


def project_root(path: str | os.PathLike[str]) -> str | None:
    """Return the nearest project directory at or above a path, which need not exist.

    The search stops below the home directory and `/`, and at a file system boundary.
    """
    folder = os.path.abspath(path)
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    folder = os.path.realpath(folder)
    home = os.path.join(os.path.realpath(os.path.expanduser("~")), "")
    device = os.stat(folder).st_dev
    while not home.startswith(os.path.join(folder, "")) and os.stat(folder).st_dev == device:
        if any(os.path.lexists(os.path.join(folder, marker)) for marker in MARKERS):
            return folder
        folder = os.path.dirname(folder)
    return None


def identity(status: os.stat_result) -> tuple[int, ...]:
    """Return the fields of a file's status that change with its content or mode."""
    times = status.st_mtime_ns, status.st_ctime_ns
    return (status.st_dev, status.st_ino, status.st_mode, status.st_size, *times)


# -- Reading files without following links

# A sparse file can be larger than memory. Git ignores rules files of 100 MB and more.
LARGEST_TEXT = 16 << 20

_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# With O_PATH, a directory need not be readable.
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | getattr(os, "O_PATH", 0)

# The entries by which git recognizes a git directory.
IN_GIT_DIR = frozenset((b"HEAD", b"objects", b"refs"))


def readlink(path: bytes) -> bytes:
    """Return the target of a link; raise OSError if a directory above it is a link."""
    folder, name = os.path.split(path)
    handle = _opened(folder, _FOLDER_FLAGS)
    try:
        return os.readlink(name, dir_fd=handle)
    finally:
        os.close(handle)


def open_file(path: bytes) -> int:
    """Open a file for reading, without waiting for the writer of a pipe."""
    return _opened(path, _FILE_FLAGS)


def _opened(path: bytes, flags: int) -> int:
    """Open a path; raise OSError if any component is a link."""
    fd = os.open(path, flags)
    place = _place(fd)
    if place in (None, path, path + b" (deleted)"):
        return fd
    os.close(fd)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)


def _place(fd: int) -> bytes | None:
    """Return the path of an open file, or None if it is unknown."""
    if sys.platform == "darwin":
        return fcntl.fcntl(fd, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0")
    with suppress(OSError):
        return os.readlink(b"/proc/self/fd/%d" % fd)
    return None


def read_plain_file(path: bytes, most: int = LARGEST_TEXT) -> bytes | None:
    """Return the contents of a regular file of at most `most` bytes, otherwise None."""
    try:
        with open(open_file(path), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return None
            text = file.read(most + 1)
    except OSError:
        return None
    return text if len(text) <= most else None


def is_nested_repository(path: bytes) -> bool:
    """Return whether a directory contains a `.git` file or git directory."""
    dot_git = os.path.join(path, b".git")
    try:
        mode = os.lstat(dot_git).st_mode
    except OSError:
        return False
    if stat.S_ISDIR(mode) or stat.S_ISLNK(mode):
        return os.path.lexists(os.path.join(dot_git, b"HEAD"))
    text = read_plain_file(dot_git)
    return text is not None and text.startswith(b"gitdir:")


def is_repository(path: bytes) -> bool:
    """Return whether a directory is a repository or itself a git directory."""
    is_git_dir = all(os.path.lexists(os.path.join(path, name)) for name in IN_GIT_DIR)
    return is_git_dir or is_nested_repository(path)


# -- The user's directories, by the XDG specification

GUARD_NOTES = "guarded"  # the guard's notes, in a private directory


def home_dir(env: Mapping[str, str]) -> str:
    home = env.get("HOME")
    if not home:
        raise CkptError("$HOME is not set", hint="set HOME to your home folder, then try again")
    return home


def config_home(env: Mapping[str, str]) -> str:
    return env.get("XDG_CONFIG_HOME") or os.path.join(home_dir(env), ".config")


def data_dir(env: Mapping[str, str]) -> str:
    """Return the directory where ckpt installs and stores files for a user."""
    data_home = env.get("XDG_DATA_HOME") or os.path.join(home_dir(env), ".local", "share")
    return os.path.join(data_home, "ckpt")
