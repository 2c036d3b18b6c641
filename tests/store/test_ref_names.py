# SPDX-License-Identifier: MIT
"""Names of refs: what git would have, and which of them a worktree has for itself."""

from __future__ import annotations

import pytest

from ckpt.git.refs import is_ref_name, is_safe, is_shared


@pytest.mark.parametrize(
    "name",
    [
        b"refs/heads/main",
        b"refs/heads/a/b",
        b"refs/heads/caf\xc3\xa9",
        b"refs/heads/not-utf-8-\xff",
        b"refs/heads/@",
        b"refs/heads/a.b",
        b"refs/heads/a@b",
        b"refs/heads/{",
        b"refs/heads/lock",
        b"refs/heads/-",
    ],
)
def test_a_name_that_git_takes(name: bytes) -> None:
    assert is_ref_name(name)
    assert is_safe(name)


@pytest.mark.parametrize(
    "name",
    [
        b"",
        b"@",
        b"main",
        b"refs/heads/",
        b"refs//heads",
        b"/refs/heads/a",
        b"refs/heads/.a",
        b"refs/.heads/a",
        b"refs/heads/a.lock",
        b"refs/a.lock/b",
        b"refs/heads/a.",
        b"refs/heads/a..b",
        b"refs/../config",
        b"refs/heads/a@{1}",
        *(b"refs/heads/a%cb" % char for char in b"\0\t\n\r\x1f\x7f ~^:?*[\\"),
    ],
)
def test_a_name_that_git_refuses(name: bytes) -> None:
    assert not is_ref_name(name)
    assert not is_safe(name)


@pytest.mark.parametrize("name", [b"config", b"packed-refs", b"objects/x", b"FETCH_HEAD"])
def test_only_head_and_what_is_below_refs_may_become_a_path(name: bytes) -> None:
    assert not is_safe(name)
    assert is_safe(b"HEAD")


def test_head_and_a_few_others_are_each_worktrees_own() -> None:
    own = [b"HEAD", b"refs/bisect/bad", b"refs/worktree/x", b"refs/rewritten/x"]
    shared = [b"refs/heads/main", b"refs/checkpoints/x", b"refs/bisected/x", b"refs/stash"]

    assert not any(map(is_shared, own))
    assert all(map(is_shared, shared))
