# SPDX-License-Identifier: MIT
"""What `create` was given, made into what the engine is asked for."""

from __future__ import annotations

from ckpt.arguments import as_features, as_kind, check_has_worktree
from ckpt.engine.snapshot import SaveRequest
from ckpt.engine.tally import count_save
from ckpt.models import Kind, Outcome, SaveResult, Scope
from ckpt.settings import Settings
from ckpt.store.agent_state import texts_of
from ckpt.store.repository import Repository
from ckpt.values import value_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from ckpt.models import FeatureState
    from ckpt.store.agent_state import Texts
    from ckpt.store.kernel_lock import Waiting
    from ckpt.tracking.objects import TrackedObjects

_TIME_TO_PRUNE = 2.0  # seconds, now and then


@value_class
class GivenState:
    """State that a caller passes for one checkpoint; UsageError if it cannot be stored."""

    data: Any
    metadata: Mapping[str, Any] | None
    context: Mapping[str, Any] | None
    features: FeatureState | Mapping[str, Any] | None
    files: tuple[bytes, ...]

    @property
    def is_given(self) -> bool:
        parts = (self.data, self.metadata, self.context, self.features)
        return bool(self.files) or any(part is not None for part in parts)

    def texts(self, tracked: TrackedObjects | None) -> Texts:
        """All of it as it will be stored, with the objects that are tracked."""
        context = self.context
        turn = None if tracked is None else tracked.turn()
        if turn is not None:
            context = {"turn": turn, **(context or {})}
        texts = texts_of(
            data=self.data,
            metadata=self.metadata,
            context=context,
            features=as_features(self.features, self.files),
        )
        return texts if tracked is None else {**texts, **tracked.texts()}


def request_of(
    repo: Repository,
    scope: Scope,
    state: GivenState,
    tracked: TrackedObjects | None,
    *,
    name: str | None,
    description: str | None,
    kind: Kind | str,
    trigger: str | None,
    session: str | None,
    pin: bool,
) -> SaveRequest:
    if state.files:
        from ckpt.engine.state_files import check_places

        check_has_worktree(scope)
        check_places(repo, state.files)
    return SaveRequest(
        name=name,
        description=description,
        kind=as_kind(kind),
        trigger=trigger or "api",
        session=session,
        state=state.texts(tracked),
        state_files=state.files,
        state_is_given=state.is_given,
        pinned=pin,
    )


def save(
    repo: Repository,
    settings: Callable[[], Settings],
    scope: Scope,
    request: SaveRequest,
    *,
    forgiving: Callable[[], Settings],
    recurse: bool,
    progress: Callable[[int, int], None] | None,
    waiting: Waiting | None,
) -> SaveResult:
    """Take the checkpoint; settings matter only for one of files. What no rule keeps any more may
    go then, by the forgiving ones."""
    result = _save(repo, settings, scope, request, recurse, progress, waiting)
    if result.outcome in (Outcome.CREATED, Outcome.PARTIAL) and count_save(repo.private_dir):
        from ckpt.engine.auto_prune import prune_by_itself

        prune_by_itself(repo, forgiving, result.id or "", _TIME_TO_PRUNE)
    return result


def _save(
    repo: Repository,
    settings: Callable[[], Settings],
    scope: Scope,
    request: SaveRequest,
    recurse: bool,
    progress: Callable[[int, int], None] | None,
    waiting: Waiting | None,
) -> SaveResult:
    if scope is Scope.STATE:
        from ckpt.engine import state_only

        check_has_worktree(Scope.STATE if recurse else Scope.FULL)
        return state_only.save(repo, request)
    if recurse:
        from ckpt.engine import recurse as engine_recurse

        save = engine_recurse.save
        return save(repo, settings(), request, progress=progress, waiting=waiting)
    from ckpt.engine import snapshot

    return snapshot.save(repo, settings(), request, progress=progress, waiting=waiting)
