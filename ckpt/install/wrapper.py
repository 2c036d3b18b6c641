# SPDX-License-Identifier: MIT
"""The wrapper: a `git` that takes a checkpoint before the real one is run.

For where the guard cannot be used, and for what git never asks it about: `git apply`, `git
worktree remove --force`. A function for bash, zsh and fish, and a program to put first on PATH
for agents, in the user's data folder for all repositories. No start-up file of a shell is edited;
the line to add is printed.
"""

from __future__ import annotations

import os
from shlex import quote

from ckpt import disk
from ckpt.install import guard
from ckpt.install.programs import asset, find
from ckpt.install.record import (
    ADDED,
    CHANGED,
    KEPT,
    NOTE,
    REMOVED,
    Step,
    Target,
    read_file,
    write_file,
)
from ckpt.locks import NOT_SHARED
from ckpt.models import INSTALLED, MISSING, REPLACED, Finding
from ckpt.paths import data_dir

_PART = "wrapper"
_MEND = "git ckpt install --wrapper"


def install(target: Target) -> list[Step]:
    folder = _folder(target)
    texts = _texts(target)
    before = {path: read_file(path) for path in texts}
    target.user_record.put_users(_PART, [*target.user_record.users(_PART), target.place])
    if before == texts:
        return [Step(KEPT, "wrapper", folder)]
    NOT_SHARED.make_folders(os.path.join(folder, "bin"))
    for path, text in texts.items():
        write_file(path, text, 0o777)
    action = CHANGED if any(before.values()) else ADDED
    shell, fish, bin = (quote(os.path.join(folder, name)) for name in ("git.sh", "git.fish", "bin"))
    lines = {
        "for bash or zsh, add to ~/.bashrc or ~/.zshrc": f"[ ! -f {shell} ] || . {shell}",
        "for fish, add to config.fish": f"test ! -f {fish}; or source {fish}",
        "for agents and other programs, start them with": f"PATH={bin}:$PATH",
    }
    notes = [Step(NOTE, f"wrapper: {where}", folder, (line,)) for where, line in lines.items()]
    return [Step(action, "wrapper, for a shell that reads it", folder), *notes]


def uninstall(target: Target) -> list[Step]:
    """Remove it with the last place that requested it."""
    users = target.user_record.users(_PART)
    left = [place for place in users if place != target.place]
    if not users:
        return []
    if not left:
        disk.remove_tree(_folder(target))
    target.user_record.put_users(_PART, left)
    return [] if left else [Step(REMOVED, "wrapper", _folder(target))]


def inspect(target: Target) -> list[Finding]:
    folder = _folder(target)
    if not target.user_record.users(_PART):
        return [Finding("wrapper", MISSING, "not installed", _MEND)]
    gone = [path for path in files(target) if not os.path.exists(path)]
    if gone:
        return [Finding("wrapper", REPLACED, f"'{gone[0]}' is gone", _MEND)]
    missing = guard.what_is_gone(os.path.join(folder, "guard"))
    if missing is not None:
        return [Finding("wrapper", REPLACED, f"'{missing}', which it starts, is gone", _MEND)]
    return [Finding("wrapper", INSTALLED, f"'{folder}', for a shell that reads it")]


def files(target: Target) -> list[str]:
    """All files that an install may write."""
    return [os.path.join(_folder(target), n) for n in ("guard", "git.sh", "git.fish", "bin/git")]


def program(target: Target) -> str:
    """The `git` for agents."""
    return os.path.join(_folder(target), "bin", "git")


def is_own(target: Target) -> bool:
    """Whether all files are exactly what an install would write."""
    return all(read_file(path) == text for path, text in _texts(target).items())


def _texts(target: Target) -> dict[str, bytes]:
    """The files of the wrapper and their contents."""
    own, sh, fish, git = files(target)
    # The git on PATH that is not this wrapper; empty if there is none.
    folders = target.env.get("PATH", os.defpath).split(os.pathsep)
    others = [f for f in folders if os.path.realpath(f) != os.path.realpath(os.path.dirname(git))]
    real = find("git", {**target.env, "PATH": os.pathsep.join(others)}) or ""
    sources = {sh: "hooks/wrapper.sh", fish: "hooks/wrapper.fish", git: "hooks/wrapper-git"}
    texts = {own: guard.script(target.python)}
    for path, source in sources.items():
        text = asset(source).read_bytes().replace(b"'@GUARD@'", os.fsencode(quote(own)))
        texts[path] = text.replace(b"'@GIT@'", os.fsencode(quote(real)))
    return texts


def _folder(target: Target) -> str:
    return os.path.join(data_dir(target.env), "wrapper")
