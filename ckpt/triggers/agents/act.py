# SPDX-License-Identifier: MIT
"""What the events of an agent lead to: checkpoints, turns, and the ledger of its writes.

A session begins with a checkpoint of kind `session`. In each turn the first tool that may write
waits for one of kind `auto`; later ones only if a command is about to remove files. A file in
another repository than the agent's is saved there, once a turn too if the agent's counts turns.
Like every trigger this never raises. What cannot be noted is ignored: a lost turn costs one
checkpoint too many, and a rollback leaves a write that is not in the ledger alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from time import monotonic

from ckpt.engine.sessions import SessionState, forget_old, look
from ckpt.errors import UsageError
from ckpt.git.repository import Repository
from ckpt.models import Kind, Outcome, SaveResult
from ckpt.paths import relative_to_top
from ckpt.settings.settings import session_of_env
from ckpt.triggers.agents.event import BEFORE, PROMPT, START, Event
from ckpt.triggers.fire import Fired, Request, fire

_PATIENCE = 3.0  # seconds: a little more than another hook may take for its checkpoint
_ENOUGH = 4.0  # seconds, after which no further repository is looked into


def act(trigger: str, event: Event, env: Mapping[str, str]) -> Fired | None:
    """Do what an event asks for; None if no checkpoint was to be taken."""
    session = session_of_env(env)
    # What `git ckpt run` has started has its `session` checkpoint already.
    is_start = event.occasion in (START, PROMPT) and session is None
    kind = Kind.SESSION if is_start else Kind.AUTO
    request = Request(trigger, kind, session or event.session)
    deadline = monotonic() + _ENOUGH
    fired, counting = _act_in(event, env, request, None)
    every = [fired]
    for other in _elsewhere(event, env):
        if monotonic() < deadline:
            every.append(_act_in(other, env, request._replace(is_stranger=True), counting)[0])
        elif event.occasion == BEFORE:
            told = f"no checkpoint was taken of '{other.folder}': the time was up"
            every.append(Fired(SaveResult(Outcome.SKIPPED, reason="budget"), (told,)))
    done = [each for each in every if each is not None]
    # The agent's own repository counts, if it was saved.
    warnings = tuple(text for each in done for text in each.warnings)
    return done[0]._replace(warnings=warnings) if done else None


def _act_in(
    event: Event, env: Mapping[str, str], request: Request, counting: SessionState | None
) -> tuple[Fired | None, SessionState | None]:
    """Do it in one repository. In one that is not the agent's own, turns are those that are
    counted there; where nobody counts them, each event may be in a new one."""
    state = None
    try:
        repo = _open(event.folder, env, request)
        if repo is None:
            return None, None
        with repo:
            state = SessionState(repo.private_dir, request.session or event.session)
            if request.is_stranger and event.occasion == BEFORE:
                state.unclaim() if counting is None else state.follow(counting)
            return _act(repo, state, event, env, request), state
    except Exception:
        # Whatever is wrong, a save meets it too, and reports it; what only turns and the ledger
        # met must not cost the checkpoint.
        is_due = event.occasion in (START, BEFORE)
        return (fire(event.folder, env, request) if is_due else None), state


def _open(folder: str, env: Mapping[str, str], request: Request) -> Repository | None:
    """The repository that the agent works in, or writes to, unless the agent is turned off."""
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
        # Some agents, or older versions, do not report that a session starts.
        fired = None if state.is_known else _start(repo, state, env, request)
        state.new_turn()
        return fired
    for path, name in _in_repository(repo, event):
        if event.occasion == BEFORE:
            state.foresee(path, is_there=os.path.lexists(name))
        else:
            state.record(path, look(name))
    if event.occasion != BEFORE:
        return None
    with state.saving(_PATIENCE):
        turn = state.turn
        if state.is_claimed and not event.destroys:
            return None
        fired = fire(repo.worktree, env, request)
        if fired.result:
            state.note_saved(turn)
        return fired


def _start(
    repo: Repository, state: SessionState, env: Mapping[str, str], request: Request
) -> Fired:
    forget_old(repo.private_dir)
    fired = fire(repo.worktree, env, request)
    state.unclaim()
    return fired


def _in_repository(repo: Repository, event: Event) -> Iterator[tuple[bytes, str]]:
    """The files that a tool writes to in the worktree: by their path there, and on disk."""
    for path in event.paths:
        for name in places_of(event.folder, path):
            try:
                yield relative_to_top(name, repo.worktree, repo.worktree), name
            except (UsageError, ValueError, OSError):
                continue


def _elsewhere(event: Event, env: Mapping[str, str]) -> Iterator[Event]:
    """The event once for each other repository, with the files that are in it."""
    if not event.paths or env.get("GIT_DIR"):  # by which git finds the same one everywhere
        return
    own, others = _top_of(os.path.realpath(event.folder)), dict[str, list[str]]()
    for path in event.paths:
        for place in places_of(event.folder, path):
            top = _top_of(os.path.dirname(place))
            if top is not None and top != own:
                others.setdefault(top, []).append(place)
    for top, paths in others.items():
        yield Event(event.occasion, event.session, top, tuple(paths))


def places_of(folder: str, path: str) -> tuple[str, ...]:
    """The file that a tool names. Written through a link, it is the link and what it leads to;
    the folders above are without links too."""
    path = os.path.join(folder, os.path.expanduser(path))
    parent, name = os.path.split(os.path.normpath(path))
    itself = os.path.join(os.path.realpath(parent), name)
    return tuple(dict.fromkeys((itself, os.path.realpath(path))))


def _top_of(folder: str) -> str | None:
    """The top of the repository that a folder is in, as far as names tell."""
    while not os.path.lexists(os.path.join(folder, ".git")):
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent
    return folder
