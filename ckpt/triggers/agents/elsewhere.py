# SPDX-License-Identifier: MIT
"""Files that an agent writes to in other repositories than that of the folder it works in.

A second folder of the session, a submodule, a worktree inside the worktree, or any repository at
all where the agent works in the folder above them: their files are in no checkpoint of the
folder's own. Only what a tool names is known; where a shell command writes, nobody can tell.
"""

from __future__ import annotations

import os

from ckpt.triggers.agents.event import Event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def elsewhere(event: Event, env: Mapping[str, str]) -> Iterator[Event]:
    """The event once for each of those repositories, with the files that are in it."""
    if not event.paths or env.get("GIT_DIR"):  # by which git finds the same one everywhere
        return
    tops = _Tops()
    own, others = tops.of(os.path.realpath(event.folder)), dict[str, list[str]]()
    for path in event.paths:
        for place in places_of(event.folder, path):
            top = tops.of(os.path.dirname(place))
            if top not in (None, own):
                others.setdefault(top, []).append(place)
    for top, paths in others.items():
        yield Event(event.occasion, event.session, top, tuple(paths))


def places_of(folder: str, path: str) -> tuple[str, ...]:
    """Where a file is that a tool names. Written through a link, it is the link and what it
    leads to; there are no links in the folders above either."""
    path = os.path.join(folder, os.path.expanduser(path))
    parent, name = os.path.split(os.path.normpath(path))
    itself = os.path.join(os.path.realpath(parent), name)
    return tuple(dict.fromkeys((itself, os.path.realpath(path))))


class _Tops:
    """Which folder is the top of the repository that a folder is in, as far as names tell."""

    def __init__(self) -> None:
        self._known: dict[str, str | None] = {}

    def of(self, folder: str) -> str | None:
        passed = []
        while folder not in self._known:
            parent = os.path.dirname(folder)
            if os.path.lexists(os.path.join(folder, ".git")):
                self._known[folder] = folder
            elif parent == folder:
                self._known[folder] = None
            else:
                passed.append(folder)
                folder = parent
        top = self._known[folder]
        self._known.update(dict.fromkeys(passed, top))
        return top
