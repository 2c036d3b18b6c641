# SPDX-License-Identifier: MIT
"""Whose a change is: the agent's, to be taken back, or a person's, to be kept."""

from __future__ import annotations

import pytest

from ckpt.engine.sessions import (
    EDITED,
    IN_ITS_PLACE,
    MADE_BEFORE,
    NO_FILE,
    NOT_WRITTEN,
    NOWHERE,
    REMOVED,
    UNREADABLE,
    Content,
    Decision,
    Write,
    decide,
)
from ckpt.paths import is_within

AGENT, PERSON = Content("a" * 64, 0o100644), Content("b" * 64, 0o100644)
MADE_EXECUTABLE = Content("a" * 64, 0o100755)


def decided(
    changing: str, ledger: dict[str, Content], now: dict[str, Content], always: str = ""
) -> Decision:
    def look(path: bytes) -> Content:
        if path == b"unreadable":
            raise PermissionError
        return now.get(path.decode(), NO_FILE)

    return decide(
        [path.encode() for path in changing.split()],
        {path.encode(): Write(content, None, 1) for path, content in ledger.items()},
        look,
        [path.encode() for path in always.split()],
    )


@pytest.mark.parametrize(
    ("left", "now", "reason"),
    [
        (AGENT, AGENT, None),
        (AGENT, PERSON, EDITED),
        (AGENT, MADE_EXECUTABLE, EDITED),
        (AGENT, NO_FILE, REMOVED),
        (NO_FILE, NO_FILE, None),
        (NO_FILE, PERSON, EDITED),
        (None, PERSON, NOT_WRITTEN),
        (None, AGENT, NOT_WRITTEN),
        (None, NO_FILE, NOT_WRITTEN),
    ],
)
def test_a_path_goes_back_if_it_is_as_the_agent_left_it(
    left: Content | None, now: Content, reason: str | None
) -> None:
    ledger = {} if left is None else {"path": left}
    decision = decided("path", ledger, {"path": now})

    assert decision.kept == ({} if reason is None else {b"path": reason})
    assert decision.back == (frozenset() if reason else {b"path"})


def test_what_cannot_be_read_is_kept() -> None:
    assert decided("unreadable", {"unreadable": AGENT}, {}).kept == {b"unreadable": UNREADABLE}


def test_a_path_that_does_not_change_is_not_listed_but_may_be_staged_otherwise() -> None:
    decision = decided("", {"same": AGENT, "edited": AGENT}, {"same": AGENT, "edited": PERSON})

    assert decision.back == {b"same"}
    assert decision.kept == {}


def test_what_always_goes_back_does_so_whoever_changed_it() -> None:
    assert decided("state", {}, {"state": PERSON}, always="state").back == {b"state"}


def test_a_file_does_not_come_back_in_the_place_of_a_folder_with_kept_files() -> None:
    decision = decided("a a/mine", {"a": NO_FILE}, {"a/mine": PERSON})

    assert decision.back == frozenset()
    assert decision.kept == {b"a": IN_ITS_PLACE, b"a/mine": NOT_WRITTEN}


def test_a_folder_that_a_person_made_where_the_agent_had_a_file_keeps_what_is_in_it() -> None:
    """The agent made a file and removed it: nothing is to be done there."""
    decision = decided("a/b/mine other", {"a": NO_FILE, "other": AGENT}, {"other": AGENT})

    assert decision.back == {b"other"}
    assert decision.kept == {b"a/b/mine": NOT_WRITTEN}


def test_a_file_comes_back_in_the_place_of_a_folder_that_the_agent_made() -> None:
    decision = decided("a a/its", {"a": NO_FILE, "a/its": AGENT}, {"a/its": AGENT})

    assert decision.back == {b"a", b"a/its"}


def test_where_all_is_kept_no_path_may_change() -> None:
    limits = decided("mine", {}, {"mine": PERSON}).limits

    assert limits == NOWHERE
    assert not any(is_within(path, limits) for path in (b"mine", b"", b"deep/er"))


@pytest.mark.parametrize(
    ("created", "is_going", "reason"),
    [(False, True, MADE_BEFORE), (True, True, None), (None, True, None), (False, False, None)],
)
def test_a_file_that_a_person_made_since_does_not_go_because_the_agent_edited_it(
    created: bool | None, is_going: bool, reason: str | None
) -> None:
    ledger = {b"path": Write(AGENT, created, 1)}
    decision = decide([b"path"], ledger, lambda _: AGENT, going=[b"path"] if is_going else [])

    assert decision.kept.get(b"path") == reason
    assert (b"path" in decision.back) == (reason is None)
