# SPDX-License-Identifier: MIT
"""The bits of new files and folders in a repository that several users write to."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from ckpt.errors import Refused
from ckpt.locks import NOT_SHARED, Sharing, read_sharing


@pytest.mark.parametrize("value", [None, "", "umask", "false", "0", "No"])
def test_most_repositories_are_not_shared(value: str | None) -> None:
    assert read_sharing(value) == NOT_SHARED


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("group", Sharing(0o660)),
        ("true", Sharing(0o660)),
        ("1", Sharing(0o660)),
        ("ALL", Sharing(0o664)),
        ("world", Sharing(0o664)),
        ("2", Sharing(0o664)),
        ("0640", Sharing(0o640, exact=True)),
        ("0777", Sharing(0o666, exact=True)),
    ],
)
def test_a_setting_is_read_as_by_git(value: str, expected: Sharing) -> None:
    assert read_sharing(value) == expected


@pytest.mark.parametrize("value", ["everyone", "0400", "9", "-1"])
def test_a_setting_that_git_refuses_is_refused(value: str) -> None:
    with pytest.raises(Refused, match=r"core\.sharedRepository"):
        read_sharing(value)


@pytest.mark.parametrize(
    ("sharing", "mode", "expected"),
    [
        (Sharing(0o660), stat.S_IFREG | 0o400, 0o440),
        (Sharing(0o660), stat.S_IFREG | 0o600, 0o660),
        (Sharing(0o664), stat.S_IFDIR | 0o700, 0o2775),
        (Sharing(0o640, exact=True), stat.S_IFREG | 0o444, 0o440),
        (Sharing(0o640, exact=True), stat.S_IFDIR | 0o755, 0o2750),
        (Sharing(0o600, exact=True), stat.S_IFDIR | 0o755, 0o700),
    ],
)
def test_bits_are_added_or_replaced(sharing: Sharing, mode: int, expected: int) -> None:
    assert sharing.wanted(mode) == expected


def test_only_folders_that_are_new_get_bits(tmp_path: Path) -> None:
    os.umask(0o077)
    (tmp_path / "old").mkdir()

    Sharing(0o660).make_folders(str(tmp_path / "old/new/inner"))

    bits = [stat.S_IMODE(os.stat(tmp_path / path).st_mode) for path in ("old", "old/new")]
    assert bits == [0o700, 0o2770]
    Sharing(0o660).make_folders(str(tmp_path / "old/new/inner"))


def test_nothing_is_touched_where_nothing_is_shared(tmp_path: Path) -> None:
    (tmp_path / "file").touch(0o600)

    NOT_SHARED.adjust(str(tmp_path / "file"))

    assert stat.S_IMODE(os.stat(tmp_path / "file").st_mode) == 0o600
