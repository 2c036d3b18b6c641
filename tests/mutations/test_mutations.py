# SPDX-License-Identifier: MIT
"""Each promise has a test that fails when a function breaks it.

Here a few of them are tried; all of them by `make mutations`.
"""

from __future__ import annotations

import os
import re

import pytest
from mutations.changes import Stale
from mutations.mutants import Mutants
from mutations.table import CHECKOUT, ROWS, Row

TRIED = ROWS if os.environ.get("CKPT_TORTURE") else ROWS[:: len(ROWS) // 5]


@pytest.fixture(scope="session")
def mutants(tmp_path_factory: pytest.TempPathFactory) -> Mutants:
    return Mutants(tmp_path_factory.mktemp("mutants"))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.promise)
def test_its_function_and_its_test_are_where_the_row_says(row: Row) -> None:
    try:
        compile(row.changed(), row.file, "exec")
    except (Stale, FileNotFoundError) as error:
        last = row.function.rpartition(".")[2]
        sources = (CHECKOUT / "ckpt").rglob("*.py")
        others = [path.name for path in sources if re.search(rf"def {last}\b", path.read_text())]
        told = f"mend '{row.promise}' in table.py: {row.file}: {error}; '{last}' is in {others}"
        pytest.fail(told, pytrace=False)
    file, _, test = row.test.partition("::")
    assert f"def {test.partition('[')[0]}(" in (CHECKOUT / file).read_text()


def test_these_tests_pass_if_nothing_is_changed(mutants: Mutants) -> None:
    assert mutants.failed(*{row.test: None for row in TRIED}) == []


@pytest.mark.parametrize("row", TRIED, ids=lambda row: row.promise)
def test_a_test_fails_without_it(row: Row, mutants: Mutants) -> None:
    with mutants.changed(row):
        assert mutants.failed(row.test), f"{row.test} passes nevertheless"
