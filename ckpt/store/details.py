# SPDX-License-Identifier: MIT
"""What only whoever looks closely at a checkpoint asks of it.

The manifest's list of what was left out, the repositories inside, the agent's state, and the
files that differed from HEAD. `record` tells from the commit alone what a list shows, for
each of a thousand; a plain save needs nothing of this.
"""

from __future__ import annotations

from ckpt.ids import is_id
from ckpt.jsontext import text_or_none
from ckpt.models import Details, NestedState, Skipped
from ckpt.paths import from_json, to_str
from ckpt.store import agent_state
from ckpt.store.objects import ObjectID
from ckpt.store.record import INDEX, MANIFEST, NotACheckpoint, read_commit, read_json
from ckpt.store.trees import UnsafeTree, check_name, diff_trees, lookup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from ckpt.models import Checkpoint
    from ckpt.store.objects import ObjectStore
    from ckpt.store.record import Reader


def read_details(objects: ObjectStore, checkpoint: Checkpoint | Reader) -> Details:
    """The manifest and the agent state, for whoever asks."""
    manifest = read_json(objects, checkpoint, MANIFEST)
    state = _agent_state(objects, checkpoint)
    try:
        return Details(
            skipped=tuple(
                Skipped(to_str(from_json(d)), str(d["reason"])) for d in manifest.get("skipped", ())
            ),
            data=state.data,
            metadata=state.metadata,
            context=state.context,
            features=state.features,
            tracked=state.tracked,
            state_files=tuple(to_str(path) for path in state.files),
            operation=text_or_none((manifest.get("operation") or {}).get("name")),
            nested=read_nested(manifest.get("nested", ())),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise NotACheckpoint(
            f"the manifest of checkpoint '{checkpoint.id}' is damaged ({error})",
            hint=f"git show {checkpoint.state_commit}:manifest.json",
        ) from None


def _agent_state(objects: ObjectStore, checkpoint: Checkpoint | Reader) -> agent_state.AgentState:
    state = read_commit(objects, ObjectID(checkpoint.state_commit.encode()))
    try:
        return agent_state.read(objects, state.tree)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise NotACheckpoint(
            f"the agent state of checkpoint '{checkpoint.id}' is damaged ({error})",
            hint=f"git show {checkpoint.state_commit}:state",
        ) from None


def read_dirty_files(objects: ObjectStore, checkpoint: Checkpoint | Reader) -> tuple[str, ...]:
    """The paths that differed from HEAD, in the worktree or in the index.

    Not written down: a list that grows with every edit would be stored with every save.
    """
    head = None
    if checkpoint.head_commit is not None:
        head = read_commit(objects, ObjectID(checkpoint.head_commit.encode())).tree
    state = read_commit(objects, ObjectID(checkpoint.state_commit.encode())).tree
    staged = lookup(objects, state, INDEX)
    found = {path for path, _, _ in diff_trees(objects, head, ObjectID(checkpoint.tree.encode()))}
    if staged is not None:
        found |= {path for path, _, _ in diff_trees(objects, head, staged.id)}
    return tuple(map(to_str, sorted(found)))


def read_nested(documents: Iterable[Any]) -> tuple[NestedState, ...]:
    """The repositories inside the worktree, as a manifest has them."""
    return tuple(
        NestedState(
            path=place_of(item),
            commit_hash=text_or_none(item["commit"]),
            branch=text_or_none(item["branch"]),
            dirty=_answer(item["dirty"]),
            checkpoint=_id_or_none(item["checkpoint"]),
            problem=text_or_none(item["problem"]),
            checkpoint_commit=_commit_or_none(item.get("checkpoint_commit")),
        )
        for item in documents
    )


def _answer(value: object) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise ValueError(f"{value!r:.40} is neither yes nor no")
    return value


def _id_or_none(value: object) -> str | None:
    text = text_or_none(value)
    if text is not None and not is_id(text):
        raise ValueError(f"{text!r:.40} is no id of a checkpoint")
    return text


def _commit_or_none(value: object) -> str | None:
    """The id of a commit, which a hint may tell people to type."""
    text = text_or_none(value)
    if text is not None and (len(text) not in (40, 64) or text.strip("0123456789abcdef")):
        raise ValueError(f"{text!r:.40} is no id of a commit")
    return text


def place_of(document: dict[str, Any]) -> str:
    """A path that is written to: it must lie inside the worktree."""
    path = from_json(document)
    try:
        for name in path.split(b"/"):
            check_name(name)
    except UnsafeTree:
        raise ValueError(f"not a path of the worktree: {to_str(path)!r}") from None
    return to_str(path)
