# SPDX-License-Identifier: MIT
"""Puts ckpt into the file of one hook, in one of three ways, and takes it out again.

No file: one of our own. A shell script: a marked block in it. Anything else (a program, a
script of another language, a symbolic link, a file that git does not run): it is renamed and
ours runs it, a link under its own name in a folder. Each change is one step: at no moment is a
hook that was there not run. What a user has added to a file of ours stays when ours goes.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from itertools import count
from shlex import quote

from ckpt import disk
from ckpt.install import hook_text
from ckpt.install.hook_places import read_file
from ckpt.install.target import ADDED, CHANGED, KEPT, REMOVED, TO_DO, Step
from ckpt.install.unfinished import NEW
from ckpt.store.lock import NO_LINKS
from ckpt.store.sharing import NOT_SHARED, Sharing


def put_in(
    path: str, event: str, python: str, *, is_script: bool = False, sharing: Sharing = NOT_SHARED
) -> Step:
    """Let a hook take a checkpoint. `is_script`: `sh` is told to run it, whatever it looks like."""
    text = read_file(path)
    if hook_text.has_block(text):
        return _renew(path, event, python, text)
    if hook_text.calls_ckpt(text, event):
        return Step(KEPT, f"hook {event}, by a line that somebody has added", path)
    if not os.path.lexists(path):
        if os.path.lexists(_wrapped(path, event)):  # another tool has taken our file away
            return _run_before(path, event, python, sharing)
        _write(path, hook_text.own_script(event, python, wraps=False), 0o777, sharing)
        return Step(ADDED, f"hook {event}", path)
    if os.path.isdir(path):
        what = f"hook {event}: a folder is in its place"
        return Step(TO_DO, what, path, (_move_away(path), "git ckpt install"))
    if is_script or (hook_text.is_shell(text) and os.access(path, os.X_OK)):
        _write(path, hook_text.with_block(text, hook_text.block(event, python)), None, sharing)
        return Step(ADDED, f"hook {event}, as a block in the script that was there", path)
    return _wrap(path, event, python, sharing)


def take_out(path: str, event: str) -> list[Step]:
    """Take what is ours out of a hook's file, and give what we wrapped its name back."""
    _clear(path)
    text = read_file(path)
    if not hook_text.has_block(text):
        return []
    wrapped = _wrapped(path, event)
    if hook_text.wraps(text, event) and os.path.lexists(wrapped):
        return [_unwrap(path, event, text, wrapped)]
    if hook_text.is_own(text, event):
        disk.unlink(path)
        return [Step(REMOVED, f"hook {event}", path)]
    _write(path, hook_text.without_ours(text), None, NOT_SHARED)
    return [Step(REMOVED, f"hook {event}, a block in a script", path)]


def give_back(path: str, event: str) -> list[Step]:
    """Rename back what we wrapped when another tool has taken our file away."""
    wrapped = _wrapped(path, event)
    if not os.path.lexists(wrapped):
        _forget_name(path, event)
        return []
    if _is_same(path, wrapped):
        _forget_name(path, event)
        disk.unlink(wrapped)
        return []
    if hook_text.runs_wrapped(read_file(path), event):
        return []
    if os.path.lexists(path):
        what = f"hook {event}: the file that ckpt had renamed is still there beside a new one"
        commands = (_move_away(path), f"mv {quote(wrapped)} {quote(path)}")
        return [Step(TO_DO, what, wrapped, commands)]
    disk.rename(wrapped, path)
    _forget_name(path, event)
    return [Step(CHANGED, f"hook {event}: it has its name back", path)]


def _renew(path: str, event: str, python: str, text: bytes) -> Step:
    renewed = hook_text.with_block(text, hook_text.block(event, python))
    if renewed == text:
        return Step(KEPT, f"hook {event}", path)
    _write(path, renewed, None, NOT_SHARED)
    return Step(CHANGED, f"hook {event}, which calls {python} now", path)


def _wrap(path: str, event: str, python: str, sharing: Sharing) -> Step:
    wrapped = _wrapped(path, event)
    if os.path.lexists(wrapped) and not _is_same(path, wrapped):
        what = f"hook {event}: '{os.path.basename(wrapped)}' is in the way"
        return Step(TO_DO, what, path, (_move_away(wrapped), "git ckpt install"))
    _second_name(path, wrapped)
    return _run_before(path, event, python, sharing)


def _run_before(path: str, event: str, python: str, sharing: Sharing) -> Step:
    """Let ours run what has been renamed."""
    wrapped = _wrapped(path, event)
    if os.path.islink(wrapped):
        _keep_name(wrapped, event, sharing)
    _write(path, hook_text.own_script(event, python, wraps=True), 0o777, sharing)
    what = f"hook {event}; what was there runs after it, as '{os.path.basename(wrapped)}'"
    return Step(ADDED, what, path)


def _move_away(path: str) -> str:
    """The command that makes room; what is there may be all that there is of a user's hook."""
    names = (f"{path}.away{number or ''}" for number in count())
    free = next(name for name in names if not os.path.lexists(name))
    return f"mv {quote(path)} {quote(free)}"


def _is_same(path: str, wrapped: str) -> bool:
    """Whether an install was killed just after it gave a hook its second name."""
    return os.path.lexists(path) and os.path.samestat(os.lstat(path), os.lstat(wrapped))


def _second_name(path: str, wrapped: str) -> None:
    try:
        disk.link(path, wrapped)
    except FileExistsError:
        pass
    except OSError as error:
        if error.errno not in NO_LINKS:  # a full disk, say, where ours could not be written either
            raise
        disk.rename(path, wrapped)


def _unwrap(path: str, event: str, text: bytes, wrapped: str) -> Step:
    if hook_text.is_own(text, event):
        disk.rename(wrapped, path)
        _forget_name(path, event)
        return Step(REMOVED, f"hook {event}; what was there before has its name back", path)
    _write(path, hook_text.without_ours(text), None, NOT_SHARED)
    what = f"hook {event}; '{os.path.basename(path)}', which you have changed, goes on to run"
    return Step(REMOVED, f"{what} '{os.path.basename(wrapped)}'", path)


def _keep_name(wrapped: str, event: str, sharing: Sharing) -> None:
    """Let one program that is linked under the names of many hooks know for which it runs."""
    name = _name_kept(wrapped, event)
    sharing.make_folders(os.path.dirname(name))
    with suppress(FileExistsError):
        disk.symlink(_link_to(event), name)


def _forget_name(path: str, event: str) -> None:
    name = _name_kept(path, event)
    with suppress(OSError):  # there is none, or the folder has more in it
        if os.readlink(name) == _link_to(event):
            disk.unlink(name)
    with suppress(OSError):
        disk.rmdir(os.path.dirname(name))


def _name_kept(path: str, event: str) -> str:
    return os.path.join(os.path.dirname(path), hook_text.NAMED, event)


def _link_to(event: str) -> str:
    return os.path.join(os.pardir, event + hook_text.WRAPPED)


def _wrapped(path: str, event: str) -> str:
    return os.path.join(os.path.dirname(path), event + hook_text.WRAPPED)


def _write(path: str, text: bytes, mode: int | None, sharing: Sharing) -> None:
    """Put a file in place in one step: with these bits less the umask, or those it had."""
    bits = stat.S_IMODE(os.lstat(path).st_mode) if mode is None else None
    temporary = path + NEW
    _clear(path)
    with disk.replacing(path, temporary, mode or 0o600) as fd:
        disk.write(fd, text)
        if bits is None:
            sharing.adjust(temporary)
        else:
            disk.chmod(fd, bits)


def _clear(path: str) -> None:
    """Take away what a killed process has not finished."""
    try:
        disk.unlink(path + NEW)
    except FileNotFoundError:
        pass
