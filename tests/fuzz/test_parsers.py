# SPDX-License-Identifier: MIT
"""Whatever bytes a parser is given, it reads them or raises what its callers expect.

CKPT_FUZZ_EXAMPLES, which `make fuzz` sets, is how many examples each parser gets.
"""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import pytest
from fuzz import git_files, own_files
from fuzz.damage import Edit, damaged, edits, other_words
from fuzz.parsers import PARSERS, Read, Samples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

FILL_THE_TABLE = (git_files, own_files)
IS_LONG = "CKPT_FUZZ_EXAMPLES" in os.environ
EXAMPLES = int(os.environ.get("CKPT_FUZZ_EXAMPLES", "50"))
# Python's own needs, for its deepest nesting or a module that is imported late.
_ANYHOW = 32 << 20
_TIMES = 200

Made = tuple[Samples, Read]
Raises = tuple[type[Exception], ...]

once = settings(
    max_examples=EXAMPLES,
    derandomize=not IS_LONG,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(params=PARSERS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def made(name: str, tmp_path: Path) -> Made:
    return PARSERS[name].build(tmp_path)


@pytest.fixture
def raises(name: str) -> Raises:
    return PARSERS[name].raises


def test_what_is_right_is_read(made: Made) -> None:
    samples, read = made

    for sample in samples:
        read(sample)


def test_any_word_may_be_another(made: Made, raises: Raises) -> None:
    samples, read = made
    texts = [text for sample in samples for text in other_words(sample)]

    for text in texts[:: max(1, len(texts) // EXAMPLES)]:
        _try(read, text, raises)


@once
@given(number=st.integers(0, 4), wanted=edits)
def test_what_is_damaged_is_read_or_refused(
    made: Made, raises: Raises, number: int, wanted: list[Edit]
) -> None:
    samples, read = made

    _try(read, damaged(samples[number % len(samples)], wanted), raises)


@once
@given(data=st.binary(max_size=100))
def test_any_bytes_are_read_or_refused(made: Made, raises: Raises, data: bytes) -> None:
    _try(made[1], data, raises)


def _try(read: Read, data: bytes, raises: Raises) -> None:
    tracemalloc.start()
    try:
        read(data)
    except raises:
        pass
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < _ANYHOW + _TIMES * len(data)
