# SPDX-License-Identifier: MIT
"""Tests see nothing of this machine. What their helpers see, `mutations` shows."""

from __future__ import annotations

import os
import time
from pathlib import Path

from helpers import git


def test_nothing_of_the_machine_is_visible(isolated: Path) -> None:
    assert Path.home() == isolated
    assert isolated == Path.cwd()
    assert not [name for name in os.environ if name.startswith("CKPT_")]
    assert "NO_COLOR" not in os.environ
    assert time.tzname[0] == "UTC"
    origins = git("config", "--list", "--show-origin").splitlines()
    assert {line.split("\t")[0] for line in origins} == {f"file:{isolated}/.gitconfig"}
