# SPDX-License-Identifier: MIT
"""A save is made or refused before anything is written, whatever it is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from byhand import files_below, worktree, write_checkpoint
from byhand import open_repository as opened

from ckpt.engine.checkpoint import Recorded
from ckpt.engine.snapshot import SaveRequest, save
from ckpt.errors import UsageError
from ckpt.git.refs import Head
from ckpt.git.repository import Repository
from ckpt.ids import is_id
from ckpt.models import Checkpoint
from ckpt.settings.settings import Settings


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[Repository]:
    with opened(worktree(tmp_path / "repo")) as repository:
        yield repository


def saved(repo: Repository, **request: Any) -> Checkpoint:
    made = save(repo, Settings(), SaveRequest(**request)).checkpoint
    assert made is not None
    return made


@pytest.mark.parametrize(
    "request_",
    [
        {"name": "-x"},
        {"description": "nul\0"},
        {"session": " "},
        {"session": "half a \ud83d smile"},
        {"trigger": "half a \ud83d smile"},
    ],
)
def test_what_cannot_be_stored_is_refused_and_nothing_is_written(
    request_: dict[str, Any], repo: Repository
) -> None:
    with pytest.raises(UsageError):
        saved(repo, **request_)

    assert files_below(Path(repo.git_dir, "objects")) == []
    assert repo.refs.checkpoints() == {}


def test_a_session_of_bytes_that_are_no_text_is_stored(repo: Repository) -> None:
    assert saved(repo, session="caf\udce9").session == "caf\udce9"


@pytest.mark.parametrize("newest", ["99991231-235959-999-zzzz", "99999999-999999-999-zzzz"])
def test_a_checkpoint_from_the_end_of_time_does_not_stop_a_save(
    newest: str, repo: Repository
) -> None:
    write_checkpoint(repo, id=newest)

    assert is_id(saved(repo).id)


@pytest.mark.parametrize(
    ("branch", "shown"),
    [
        (b"refs/heads/main", "main"),
        (b"refs/heads/a/b", "a/b"),
        (b"refs/heads/caf\xe9", "caf\udce9"),
        (b"refs/other/main", "refs/other/main"),
        (None, None),
    ],
)
def test_a_branch_comes_back_from_a_checkpoint(
    branch: bytes | None, shown: str | None, repo: Repository
) -> None:
    contents = b"1" * 40 if branch is None else b"ref: " + branch
    Path(repo.git_dir, "HEAD").write_bytes(contents + b"\n")
    if branch is None:
        assert Head(None, None).state.branch is None
        return
    made = saved(repo)

    assert made.branch == shown
    assert Recorded(repo, made).head == Head(branch, None)
