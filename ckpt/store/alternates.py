# SPDX-License-Identifier: MIT
"""Where objects may be: a repository's own folder, then those that it borrows from.

`info/alternates` names other object folders, line by line, and each of them may name
more; `GIT_ALTERNATE_OBJECT_DIRECTORIES` adds some. As in git no chain is followed for
ever, and a folder that is not there is passed over. Nothing is ever written to them but
the times of what is used.
"""

from __future__ import annotations

import os

from ckpt import regular
from ckpt.errors import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_MOST_NESTED = 5  # one behind the other, as in git
# More than anybody has: a repository inside the worktree may name folders without end.
_LARGEST = 1 << 20  # bytes of a list
_MOST = 10_000  # names, after which no further list is read


def object_folders(path: str, more: Iterable[str] = ()) -> list[str]:
    """The folder itself and all its alternates, each once, in the order of looking."""
    found = [path]
    known = {os.path.realpath(path)}
    todo = [(folder, 1) for folder in (*_named_in(path), *more)]
    for folder, depth in todo:  # which grows meanwhile
        if not os.path.isdir(folder):  # nor can be, if there is a zero byte in its name
            continue
        real = os.path.realpath(folder)
        if real in known:
            continue
        known.add(real)
        found.append(folder)
        if depth <= _MOST_NESTED and len(todo) < _MOST:
            todo += [(further, depth + 1) for further in _named_in(folder)]
    return found


def check_none_lent(path: str, more: Iterable[str]) -> None:
    """Refuse to rely on a folder that only the environment names, and only for now."""
    own = {*map(os.path.realpath, object_folders(path))}
    for folder in object_folders(path, more):
        if os.path.realpath(folder) in own:
            continue
        from shlex import quote

        named = os.path.join(path, "info", "alternates")
        raise Refused(
            f"the environment lends objects from '{folder}', "
            "and without them what is saved may not be whole",
            hint="unset GIT_ALTERNATE_OBJECT_DIRECTORIES, and try again; or, if they stay there: "
            f"echo {quote(os.path.abspath(folder))} >> {quote(named)}",
        )


def absent(path: str) -> list[str]:
    """Alternates that are named and not there: on a disk that is not mounted, perhaps."""
    named = [line for folder in object_folders(path) for line in _named_in(folder)]
    return [folder for folder in named if not os.path.isdir(folder)]


def _named_in(folder: str) -> Iterator[str]:
    try:
        lines = regular.read(os.path.join(folder, "info", "alternates"), _LARGEST).split(b"\n")
    except OSError:
        return
    for line in dict.fromkeys(lines):
        if line and not line.startswith(b"#"):
            yield os.path.join(folder, os.fsdecode(line))
