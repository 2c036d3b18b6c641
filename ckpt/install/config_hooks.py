# SPDX-License-Identifier: MIT
"""Hooks that git's configuration names, which git has from 2.54 on.

One section for each event, `hook.ckpt-<event>`: git does not tell a command for which event
it runs. Git starts them through `sh`, with the hook's arguments after the command, at the
top of the worktree, in the order of the configuration and before the file in the hooks
folder, wherever `core.hooksPath` says that is; any of them can stop git.
"""

from __future__ import annotations

import os

from ckpt.install import hook_text
from ckpt.install.config_edit import ConfigFile
from ckpt.install.target import ADDED, CHANGED, KEPT, REMOVED, Step

PREFIX = "hook.ckpt-"
_END = "; :"  # git adds the arguments at the end: there they are nobody's


def put_in(config: ConfigFile, event: str, python: str) -> Step:
    pairs = [("event", event), ("command", _command(event, python))]
    wanted = [(f"{PREFIX}{event}.{name}", value) for name, value in pairs]
    found = [entry for entry in config.entries() if _is_of(entry[0], event)]
    place = f"{config.path}: {PREFIX}{event}"
    if found == wanted:
        return Step(KEPT, f"hook {event}", place)
    if found:
        config.remove(lambda key, _: _is_of(key, event))
    config.add("hook", f"ckpt-{event}", pairs)
    return Step(CHANGED if found else ADDED, f"hook {event}, in git's configuration", place)


def take_out(config: ConfigFile, event: str) -> list[Step]:
    if not config.remove(lambda key, _: _is_of(key, event)):
        return []
    return [Step(REMOVED, f"hook {event}", f"{config.path}: {PREFIX}{event}")]


def is_in(config: ConfigFile, event: str) -> bool:
    names = {key.rpartition(".")[2] for key, _ in config.entries() if _is_of(key, event)}
    return names >= {"command", "event"}


def our_entries(config: ConfigFile, event: str) -> list[tuple[str, str]]:
    """What a file says of a hook; nothing, unless that is word for word what ckpt puts there."""
    found = [entry for entry in config.entries() if _is_of(entry[0], event)]
    said = dict(found)
    line = said.get(f"{PREFIX}{event}.command", "")
    is_ours = (
        len(found) == 2
        and said.get(f"{PREFIX}{event}.event") == event
        and line.endswith(_END)
        and hook_text.is_word_for_word(os.fsencode(line.removesuffix(_END)), event)
    )
    return found if is_ours else []


def _is_of(key: str, event: str) -> bool:
    return key.startswith(f"{PREFIX}{event}.")


def _command(event: str, python: str) -> str:
    return hook_text.command(event, python) + _END
