# SPDX-License-Identifier: MIT
"""The process that is struck, one for each worker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from faults.striking import Driver


@pytest.fixture(scope="session")
def driver() -> Iterator[Driver]:
    running = Driver()
    yield running
    running.close()
