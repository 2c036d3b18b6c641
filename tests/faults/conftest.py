# SPDX-License-Identifier: MIT
"""The process that is struck, one for each worker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

# Their assertions should say what they compared, like a test's own.
pytest.register_assert_rewrite("faults.rollbacks", "faults.striking")

# ruff: noqa: E402 - to be imported after that
from faults.striking import Driver


@pytest.fixture(scope="session")
def driver() -> Iterator[Driver]:
    running = Driver()
    yield running
    running.close()
