# SPDX-License-Identifier: MIT
"""Each defence has a test that fails when the defence is taken out.

Here, one in so many is tried; all of them with CKPT_TORTURE=1.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator

import pytest
from defences.mutants import CHECKOUT, Mutants
from defences.table import DEFENCES, Defence

EVERY = 1 if os.environ.get("CKPT_TORTURE") else 20
TRIED = DEFENCES[::EVERY]


@pytest.fixture(scope="session")
def mutants(tmp_path_factory: pytest.TempPathFactory) -> Mutants:
    return Mutants(tmp_path_factory.mktemp("defences"))


def test_defences_and_their_tests_are_where_the_table_says() -> None:
    sources = {path: (CHECKOUT / path).read_text() for path in {*_files()}}
    assert [each.what for each in DEFENCES if sources[each.module].count(each.code) != 1] == []
    tests = [test for each in DEFENCES for test in each.tests]
    assert [test for test in tests if not _is_there(*test.split("::"), sources)] == []


def _files() -> Iterator[str]:
    for defence in DEFENCES:
        yield defence.module
        yield from (test.partition("::")[0] for test in defence.tests)


def _is_there(file: str, name: str, sources: dict[str, str]) -> bool:
    return re.search(rf"^def {name}\(", sources[file], re.MULTILINE) is not None


def test_what_is_left_without_a_defence_can_be_run() -> None:
    """Else every test fails, which proves nothing."""
    sources = {path: (CHECKOUT / path).read_text() for path in {d.module for d in DEFENCES}}
    for each in (each for each in DEFENCES if each.module.endswith(".py")):
        text = sources[each.module].replace(each.code, each.without)
        assert ast.parse(text, each.what)


@pytest.mark.parametrize("defence", TRIED, ids=lambda defence: defence.what)
def test_without_a_defence_a_test_fails(
    defence: Defence, mutants: Mutants, record_property: pytest.RecordProperty
) -> None:
    assert not mutants.survives(defence)
    record_property("figures", {"defences taken out, and missed by a test": 1})
