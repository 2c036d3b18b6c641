# SPDX-License-Identifier: MIT
"""Hooks for repositories to come, where git has no configured hooks: `init.templateDir`.

Git copies that folder into every repository that it makes or clones, and into one where
`git init` is typed again, never over a file that is there. Git has one such folder: who
has set one of their own is told what to copy into it.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence

from ckpt import disk, private
from ckpt.install import hook_files
from ckpt.install.assets import asset
from ckpt.install.target import ADDED, KEPT, NOTE, REMOVED, Step, Target
from ckpt.install.user_files import data_dir
from ckpt.store.config import GitConfig
from ckpt.store.sharing import NOT_SHARED

_KEY = "init.templatedir"


def install(target: Target, events: Sequence[str]) -> list[Step]:
    folder = template_dir(target)
    steps = _build(target, folder, events)
    theirs = GitConfig.load(target.env).get_path(_KEY)
    if theirs == folder:
        return [*steps, Step(KEPT, "template for new repositories", folder)]
    if theirs:
        hooks = os.path.join(theirs, "hooks")
        copy = shlex.join(["cp", "-n", *_scripts(folder), hooks])
        what = "template for new repositories: you have one of your own, copy the hooks into it"
        return [*steps, Step(NOTE, what, theirs, (shlex.join(["mkdir", "-p", hooks]), copy))]
    target.user_config_file.add("init", None, [("templateDir", folder)])
    what = "template for repositories made or cloned from now on"
    advice = ("in a repository that is there already: git init, or git ckpt install",)
    return [*steps, Step(ADDED, what, folder, advice)]


def uninstall(target: Target, events: Sequence[str]) -> list[Step]:
    """Take hooks out of the template, and with the last of them the template itself."""
    folder = template_dir(target)
    hooks = os.path.join(folder, "hooks")
    steps = [step for e in events for step in hook_files.take_out(os.path.join(hooks, e), e)]
    if os.path.isdir(hooks) and os.listdir(hooks):
        return steps
    config = target.user_config_file
    config.remove(lambda key, value: key == _KEY and value == folder)
    if not os.path.isdir(folder):
        return []
    private.remove_tree(folder)
    return [Step(REMOVED, "template for new repositories", folder)]


def template_dir(target: Target) -> str:
    return os.path.join(data_dir(target.env), "git-template")


def _build(target: Target, folder: str, events: Sequence[str]) -> list[Step]:
    """The folder as it should be; the steps that were needed for hooks in it."""
    hooks = os.path.join(folder, "hooks")
    if not os.path.isdir(hooks):
        NOT_SHARED.make_folders(hooks)
        _copy("info/exclude", folder)
    done = [hook_files.put_in(os.path.join(hooks, e), e, target.python) for e in events]
    return [step for step in done if step.action != ADDED]


def _copy(name: str, folder: str) -> None:
    path = os.path.join(folder, name)
    NOT_SHARED.make_folders(os.path.dirname(path))
    fd = disk.create(path, 0o666)
    try:
        disk.write(fd, asset(f"templates/git-template/{name}").read_bytes())
    finally:
        os.close(fd)


def _scripts(folder: str) -> list[str]:
    hooks = os.path.join(folder, "hooks")
    return [os.path.join(hooks, name) for name in sorted(os.listdir(hooks))]
