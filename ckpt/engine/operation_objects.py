# SPDX-License-Identifier: MIT
"""The commits without which git can neither go on with an operation nor give it up.

A ref to a commit that is not there stops `git gc` and every `git log --all`; a merge with one
can be neither committed nor understood. So before an operation is put back, each is looked for,
whoever made the checkpoint: what an operation names is held by its checkpoint.

Left out: what git only remembers (ORIG_HEAD, REBASE_HEAD, AUTO_MERGE, lists of what was
rewritten or is to be done). It goes on without, and may have done so when the state was saved.
"""

from __future__ import annotations

from ckpt.engine.head import WITHOUT_HEAD
from ckpt.errors import RollbackError
from ckpt.store.objects import ObjectID
from ckpt.store.operation_record import OperationState
from ckpt.store.ref_names import is_ref_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ckpt.store.objects import ObjectStore

_MERGE_HEAD = "MERGE_HEAD"
_SEQUENCER_HEAD = "sequencer/head"
# The files that hold one commit and nothing else, besides refs.
ONE_COMMIT = frozenset(
    (
        *("BISECT_HEAD", "CHERRY_PICK_HEAD", "MERGE_AUTOSTASH", "REVERT_HEAD", _SEQUENCER_HEAD),
        *(f"rebase-merge/{name}" for name in ("autostash", "onto", "orig-head", "squash-onto")),
        *(f"rebase-apply/{name}" for name in ("autostash", "onto", "orig-head")),
    )
)


def check_objects(objects: ObjectStore, state: OperationState) -> None:
    """Refuse an operation whose files name no commit, or one that is not here."""
    for path, data in sorted(state.files.contents.items()):
        if path == _MERGE_HEAD:
            named = data.rstrip().split(b"\n")
        elif path in ONE_COMMIT or _is_ref(path):
            named = [data.rstrip()]
        else:
            continue
        for text in named:
            if not _is_id(objects, text):
                raise RollbackError(
                    f"'{path}' of the checkpoint's operation names no commit", hint=WITHOUT_HEAD
                )
            if path == _SEQUENCER_HEAD and not text.strip(b"0"):
                continue  # begun on a branch without a commit
            if not _is_commit(objects, text, or_tag=path == _MERGE_HEAD):
                raise RollbackError(
                    f"the commit '{text.decode()}' of the checkpoint's operation is missing "
                    f"('{path}' names it)",
                    hint=WITHOUT_HEAD,
                )


def _is_ref(path: str) -> bool:
    """Whether git takes a file for a ref; one that a lock left is none."""
    return path.startswith("refs/") and is_ref_name(path.encode("utf-8", "surrogateescape"))


def _is_id(objects: ObjectStore, text: bytes) -> bool:
    return len(text) == objects.object_format.hex_length and not text.strip(b"0123456789abcdef")


def _is_commit(objects: ObjectStore, text: bytes, *, or_tag: bool) -> bool:
    """Whether a commit is here, or a tag of one: of that, a merge has the tag's own id."""
    while _is_id(objects, text):
        kind = objects.kind(ObjectID(text))
        if kind != b"tag" or not or_tag:
            return kind == b"commit"
        header = objects.read(ObjectID(text), b"tag").partition(b"\n")[0]
        text = header.removeprefix(b"object ")
    return False
