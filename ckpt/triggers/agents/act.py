# SPDX-License-Identifier: MIT
"""What the events of an agent lead to: checkpoints, turns, and the ledger of its writes.

A session begins with a checkpoint of kind `session`. In each turn the first tool that may write
waits for one of kind `auto`; those after it do not, unless a command is about to take files
away, which may be files that were made in this turn. A file in another repository than the
agent's gets a checkpoint there, once a turn as well, or where no repository of the agent's
counts turns, each time. Like every trigger this never raises, and
what cannot be noted is let go: a lost turn costs a checkpoint too many, a lost write is one that
a rollback leaves alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from time import monotonic

from ckpt.engine.sessions import SessionState, forget_old, look
from ckpt.errors import UsageError
from ckpt.git.repository import Repository
from ckpt.models import Kind, Outcome, SaveResult
from ckpt.paths import relative_to_top
from ckpt.settings.settings import session_of_env
from ckpt.triggers.agents.event import BEFORE, PROMPT, START, Event
from ckpt.triggers.fire import Fired, Request, fire


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


# -- What the events of an agent lead to: checkpoints, turns, and the ledger of its writes

_PATIENCE = 3.0  # seconds: a little more than another hook may take for its checkpoint
_ENOUGH = 4.0  # seconds, after which no further repository is looked into


def act(trigger: str, event: Event, env: Mapping[str, str]) -> Fired | None:
    """Do what an event asks for; None if no checkpoint was to be taken."""
    session = session_of_env(env) or event.session
    request = Request(trigger, _kind(event, env), session)
    started = monotonic()
    fired = [_act_in(event, env, request)]
    others = list(elsewhere(event, env))
    counting = _counting(event, env, request) if others else None
    guest = replace(request, is_stranger=True)
    for other in others:
        if monotonic() - started > _ENOUGH:
            fired.append(_too_late(other))
        else:
            fired.append(_act_in(other, env, guest, counting))
    return _all_in_one([each for each in fired if each is not None])


def _too_late(event: Event) -> Fired | None:
    if event.occasion != BEFORE:
        return None
    told = f"no checkpoint was taken of '{event.folder}': the time was up"
    return Fired(SaveResult(Outcome.SKIPPED, reason="budget"), (told,))


def _act_in(
    event: Event, env: Mapping[str, str], request: Request, counting: SessionState | None = None
) -> Fired | None:
    """Do it in one repository; in one that is not the agent's own, turns are those that are
    counted there, and where nobody counts them, nobody knows whether this is a new one."""
    try:
        repo = _open(event.folder, env, request)
        if repo is None:
            return None
        with repo:
            state = SessionState(repo.private_dir, request.session or event.session)
            if request.is_stranger and event.occasion == BEFORE:
                state.unclaim() if counting is None else state.follow(counting)
            return _act(repo, state, event, env, request)
    except Exception:
        # Whatever is wrong, a save meets it too, tells of it and notes it; what only turns and
        # the ledger met must not cost the checkpoint.
        return fire(event.folder, env, request) if event.occasion in (START, BEFORE) else None


def _counting(event: Event, env: Mapping[str, str], request: Request) -> SessionState | None:
    """Where the turns of the session are counted; nowhere, if its folder is in no repository."""
    try:
        repo = _open(event.folder, env, request)
        if repo is None:
            return None
        with repo:
            return SessionState(repo.private_dir, request.session or event.session)
    except Exception:  # the look at that repository has met it before, and told of it
        return None


def _all_in_one(fired: Sequence[Fired]) -> Fired | None:
    """What became of an event, told once: the agent's own repository counts, if it was saved."""
    if len(fired) < 2:
        return fired[0] if fired else None
    return replace(fired[0], warnings=tuple(text for each in fired for text in each.warnings))


def _kind(event: Event, env: Mapping[str, str]) -> Kind:
    """What `git ckpt run` has started has its `session` checkpoint already."""
    starts = event.occasion in (START, PROMPT)
    return Kind.SESSION if starts and session_of_env(env) is None else Kind.AUTO


def _open(folder: str, env: Mapping[str, str], request: Request) -> Repository | None:
    """The repository that the agent works in, or writes to, if this agent is served there."""
    from ckpt.git.repository import NotARepository, TooBroad, discover
    from ckpt.settings.settings import load_forgiving

    try:
        repo = discover(folder, env)
    except (NotARepository, TooBroad):
        return None
    if request.is_stranger:
        from ckpt.engine.nested import as_stranger

        repo = as_stranger(repo)
    return repo if load_forgiving(repo).allows(request.trigger) else None


def _act(
    repo: Repository, state: SessionState, event: Event, env: Mapping[str, str], request: Request
) -> Fired | None:
    if event.occasion == START:
        return _start(repo, state, env, request)
    if event.occasion == PROMPT:
        # Some agents, or older versions, do not tell that a session starts.
        fired = None if state.is_known else _start(repo, state, env, request)
        state.new_turn()
        return fired
    if event.occasion == BEFORE:
        for path, name in _in_repository(repo, event):
            state.foresee(path, is_there=os.path.lexists(name))
        return _before(repo, state, event, env, request)
    for path, name in _in_repository(repo, event):
        state.record(path, look(name))
    return None


def _start(
    repo: Repository, state: SessionState, env: Mapping[str, str], request: Request
) -> Fired:
    forget_old(repo.private_dir)
    fired = _save(repo, env, request)
    state.unclaim()
    return fired


def _before(
    repo: Repository, state: SessionState, event: Event, env: Mapping[str, str], request: Request
) -> Fired | None:
    with state.saving(_PATIENCE):
        turn = state.turn
        if state.is_claimed and not event.destroys:
            return None
        fired = _save(repo, env, request)
        if fired.result:
            state.note_saved(turn)
        return fired


def _save(repo: Repository, env: Mapping[str, str], request: Request) -> Fired:
    return fire(repo.worktree, env, request)


def _in_repository(repo: Repository, event: Event) -> Iterator[tuple[bytes, str]]:
    """The files that a tool writes to, of those that are in the worktree: each as it is known
    there, and on disk."""
    for path in event.paths:
        for name in places_of(event.folder, path):
            try:
                yield relative_to_top(name, repo.worktree, repo.worktree), name
            except (UsageError, ValueError, OSError):
                continue
