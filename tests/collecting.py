# SPDX-License-Identifier: MIT
"""A process that passes for git's gc at work, for as long as a test wants."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def gc_at_work(
    git_dir: Path,
    words: Sequence[str] = ("gc",),
    env: Mapping[str, str] | None = None,
    name: str = "sh",
) -> Iterator[None]:
    """A process with these words, which `gc.pid` says is git's gc; it may go by another name."""
    with subprocess.Popen(
        [name, "-c", "echo; read end", "git", *words],
        executable="/bin/sh",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **(env or {})},
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()  # before that the system may not tell its words yet
        (git_dir / "gc.pid").write_text(f"{process.pid} somewhere")
        try:
            yield
        finally:
            process.communicate()
