# SPDX-License-Identifier: MIT
"""Which refs are to be verified: those that are named, or all there are.

Unlike the catalog, which passes over what is no checkpoint, this is about the refs
themselves: one whose commit is damaged must be found by its id, and one that names nothing,
or links to another ref, is found too. What is in the trash counts, for it can be brought back.
"""

from __future__ import annotations

from ckpt import ids
from ckpt.engine.catalog import Catalog
from ckpt.errors import CkptError, NotFound, UsageError
from ckpt.models import REF_PREFIX, TRASH_PREFIX, Scope
from ckpt.store.loose_refs import SYMREF
from ckpt.store.objects import ObjectID
from ckpt.store.repository import Repository
from ckpt.values import value_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_LATEST = "latest"
_REFS = "refs/"


@value_class
class Target:
    """A ref of ours; `commit` is None if it names none, and `problem` says why not. `said` is
    what the ref itself says, if that was asked for."""

    ref: str
    id: str | None
    commit: ObjectID | None
    problem: str | None = None
    said: bytes = b""

    @property
    def is_dropped(self) -> bool:
        return self.ref.startswith(TRASH_PREFIX)


def every_target(repo: Repository) -> list[Target]:
    """All refs of all worktrees, newest first, and then those that are in the trash."""
    found: list[Target] = []
    for prefix in (REF_PREFIX, TRASH_PREFIX):
        said = repo.refs.contents_below(prefix)
        found += [_target(repo, prefix, name, said[name]) for name in sorted(said, reverse=True)]
    return found


def in_place_of_folders(repo: Repository) -> list[Target]:
    """Refs that have the names of the folders in which all the others are."""
    said = repo.refs.contents_below(_REFS)
    names = [prefix.removeprefix(_REFS).rstrip("/") for prefix in (REF_PREFIX, TRASH_PREFIX)]
    return [_target(repo, _REFS, name, said[name]) for name in names if name in said]


def named_targets(repo: Repository, words: Iterable[str]) -> list[Target]:
    """Those that people mean, each once; NotFound, or UsageError, for what is none of them."""
    found: dict[str, Target] = {}
    for word in words:
        found |= {target.ref: target for target in _named(repo, word)}
    return list(found.values())


def _target(repo: Repository, prefix: str, name: str, said: bytes) -> Target:
    checkpoint_id = name.rpartition("/")[2] if prefix == TRASH_PREFIX else name
    known = checkpoint_id if ids.is_id(checkpoint_id) else None
    commit = repo.refs.named_by(said)
    problem = None
    if said.startswith(SYMREF.strip()):
        problem = "it is a symbolic ref, which no checkpoint has"
    elif commit is None:
        problem = "the ref names no object"
    elif known is None:
        problem = "its name is not the id of a checkpoint"
    return Target(prefix + name, known, commit, problem, said)


def _named(repo: Repository, word: str) -> Iterator[Target]:
    is_latest = word.partition("~")[0] == _LATEST
    try:
        meant = Catalog(repo).resolve(word, Scope.FULL)
    except UsageError:
        raise
    except NotFound:
        hidden = _unreadable(repo) if is_latest else _matching(every_target(repo), word)
        if not hidden or (len(hidden) > 1 and not is_latest):
            raise
        yield from hidden
        return
    except CkptError:  # a checkpoint that cannot be read: so it has to be found by its id
        yield from _matching(every_target(repo), word)[:1]
        return
    if is_latest:
        yield from (hidden for hidden in _unreadable(repo) if (hidden.id or "") > meant.id)
    yield Target(meant.ref, meant.id, ObjectID(meant.commit.encode()))


def _matching(targets: Iterable[Target], word: str) -> list[Target]:
    """Those whose id, or the last part of it, begins with a word."""
    return [
        target
        for target in targets
        if target.id is not None
        and (target.id.startswith(word) or target.id.rpartition("-")[2].startswith(word))
    ]


def _unreadable(repo: Repository) -> list[Target]:
    """Checkpoints that cannot be read: one of them may be the latest in truth."""
    readable = {checkpoint.id for checkpoint in Catalog(repo)}
    return [
        target
        for target in every_target(repo)
        if target.id is not None and target.id not in readable and not target.is_dropped
    ]
