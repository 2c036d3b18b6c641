# SPDX-License-Identifier: MIT
"""A pattern behaves as a compiled one, and is compiled when it is used."""

from __future__ import annotations

import copy
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ckpt.patterns import lazy_pattern

PROJECT = str(Path(__file__).resolve().parents[1])


def test_a_pattern_finds_what_a_compiled_one_finds() -> None:
    word = lazy_pattern(r"(?i)([a-z]+)\d")

    assert word.fullmatch("Ab1")[1] == "Ab"
    assert word.match("ab") is None
    assert word.sub("x", "a1 b2") == "x x"
    assert [found[1] for found in word.finditer("a1 b2")] == ["a", "b"]
    assert word.fullmatch("Ab1")[1] == "Ab"
    assert word.flags & re.IGNORECASE
    assert lazy_pattern(rb"\d").search(b"a1").start() == 1


def test_a_pattern_has_nothing_else() -> None:
    with pytest.raises(AttributeError):
        _ = lazy_pattern("a").no_such_thing
    assert copy.copy(lazy_pattern("a")).fullmatch("a")


def test_a_wrong_pattern_is_told_when_it_is_used() -> None:
    with pytest.raises(re.error):
        lazy_pattern("(").match("a")


def test_nothing_is_compiled_before_its_use() -> None:
    code = """if True:
        import sys
        sys.path.insert(0, sys.argv[1])
        from ckpt.patterns import lazy_pattern
        a = lazy_pattern('a')
        print(*sys.modules, 'after')
        a.match('a')
        print(*sys.modules)
    """
    run = [sys.executable, "-S", "-c", code, PROJECT]
    before, after = subprocess.run(run, capture_output=True, check=True).stdout.split(b"after")

    assert b"re" not in before.split()
    assert b"re" in after.split()
