# SPDX-License-Identifier: MIT
"""Is all there that a lost commit or tree needs, and the history behind it?

Git prunes lost objects one by one, and may have taken a commit, or a content of one, far
behind another that is still there. A ref to that would make `git gc` fail from then on. So all
of a history is looked at that no ref of git's holds anyway; what those hold is git's to check.
"""

from __future__ import annotations

from ckpt.engine.verify import read_inspected, set_promised_apart
from ckpt.engine.verify_trees import VerifiedTrees
from ckpt.store.history import behind, ends_of_history
from ckpt.store.objects import ObjectID
from ckpt.store.repository import Repository
from ckpt.store.soundness import PROMISED, Inspection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def fault_behind(repo: Repository, commit: ObjectID) -> str | None:
    """What is at fault with a commit or its history, the first of it; None if nothing is."""
    head = repo.refs.head().commit
    held = {*repo.refs.others(), *(() if head is None else (head,))}
    found = behind(repo.objects, commit, held, ends_of_history(repo.common_dir))
    inspection = Inspection(repo.objects)
    commits = [read_inspected(inspection, each) for each in (*found.unreadable, *found.commits)]
    return _fault(repo, inspection, {each.tree for each in commits if each is not None})


def fault_in(repo: Repository, trees: Iterable[ObjectID]) -> str | None:
    """The same of trees and all that is in them."""
    return _fault(repo, Inspection(repo.objects), trees)


def _fault(repo: Repository, inspection: Inspection, tops: Iterable[ObjectID]) -> str | None:
    trees = VerifiedTrees(inspection)
    for tree in tops:
        trees.gather(tree)
    inspection.check_blobs(trees.blobs)
    set_promised_apart(repo, inspection)
    faults = inspection.faults.values()
    return next((fault.detail for fault in faults if fault.problem != PROMISED), None)
