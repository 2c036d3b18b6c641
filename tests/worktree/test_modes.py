# SPDX-License-Identifier: MIT
"""Permission bits survive though git's trees know only two kinds of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt.worktree.modes import Modes, collect, is_executable

bits = st.integers(0, 0o777)


@given(st.dictionaries(st.binary(max_size=4), st.tuples(bits, st.booleans())))
def test_the_bits_of_every_file_come_back(files: dict[bytes, tuple[int, bool]]) -> None:
    executables = {path for path, (_, executable) in files.items() if executable}
    modes = collect({path: mode for path, (mode, _) in files.items()}, executables, {})

    for path, (mode, executable) in files.items():
        assert modes.of(path, executable) == mode


def test_the_usual_bits_cost_nothing() -> None:
    files = {b"a": 0o664, b"b": 0o664, b"c": 0o600, b"run": 0o775, b"tool": 0o775}

    assert collect(files, {b"run", b"tool"}, {}) == Modes(0o664, 0o775, {b"c": 0o600}, 0o755)


def test_a_worktree_without_files_has_gits_own_bits() -> None:
    assert collect({}, set(), {}) == Modes(0o644, 0o755, {}, 0o755)


def test_bits_that_are_equally_common_are_chosen_the_same_way_each_time() -> None:
    """Equal states must have equal manifests."""
    first = collect({b"a": 0o600, b"b": 0o644}, set(), {})
    second = collect({b"b": 0o644, b"a": 0o600}, set(), {})

    assert first == second


def test_without_file_modes_git_says_what_is_executable() -> None:
    """On such a file system every file has the same bits."""
    modes = collect({b"a": 0o777, b"run": 0o777}, {b"run"}, {})

    assert modes == Modes(0o777, 0o777, {}, 0o755)


def test_a_file_that_is_not_known_has_the_usual_bits() -> None:
    modes = Modes(0o640, 0o750, {b"private": 0o600})

    assert modes.of(b"new", False) == 0o640
    assert modes.of(b"new", True) == 0o750
    assert modes.of(b"private", False) == 0o600


@pytest.mark.parametrize(
    ("mode", "expected"), [(0o644, False), (0o755, True), (0o100, True), (0o655, False), (0, False)]
)
def test_executable_is_what_its_owner_may_run(mode: int, expected: bool) -> None:
    assert is_executable(mode) is expected


def test_folders_cost_as_much_as_there_are_odd_ones() -> None:
    folders = {b"a": 0o755, b"a/b": 0o755, b"private": 0o700}

    modes = collect({}, set(), folders)

    assert (modes.folder, modes.folders) == (0o755, {b"private": 0o700})
    assert {path: modes.of_folder(path) for path in folders} == folders


def test_bits_of_folders_that_nobody_recorded_are_not_guessed() -> None:
    assert Modes().of_folder(b"a") is None
