# SPDX-License-Identifier: MIT
"""The garbage collector is off for a while, and then as it was."""

from __future__ import annotations

import gc

import pytest

from ckpt.engine.collector import without_collector


def test_the_collector_pauses_and_goes_on() -> None:
    with without_collector():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_goes_on_after_an_error_too() -> None:
    with pytest.raises(KeyError), without_collector():
        raise KeyError
    assert gc.isenabled()


def test_where_it_was_off_it_stays_off() -> None:
    gc.disable()
    try:
        with without_collector():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
