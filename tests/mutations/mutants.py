# SPDX-License-Identifier: MIT
"""Runs tests against a copy of ckpt in which one function is changed.

A Python of its own finds `ckpt` in the copy and all else where this one does, so that the
processes that tests start have the change, too.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from mutations.table import CHECKOUT, Row

# What still has to pass: a change that breaks everything proves nothing.
CONTROL = (
    "tests/with_git/test_rollback_rules.py"
    "::test_paths_are_relative_to_the_folder_the_command_is_typed_in"
)
# What a defence keeps small may grow without it: the test shall fail, and not the machine.
LIMITED = ("sh", "-c", 'ulimit -v "$0" && exec "$@"', str(4 << 20))  # KiB


class Mutants:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        shutil.copytree(CHECKOUT / "ckpt", folder / "ckpt")
        for name in ("hooks", "templates", "man"):
            (folder / name).symlink_to(CHECKOUT / name)
        self._python = _make_python(folder / "venv", folder)
        self._times = count(1)

    def failed(self, *tests: str) -> list[str]:
        """Which of these tests fail, up to the first."""
        words = ["-I", "-m", "pytest", "-qxp", "no:cacheprovider", CONTROL, *tests]
        done = subprocess.run(
            [*LIMITED, self._python, *words],
            cwd=CHECKOUT,
            env={**os.environ, "PYTEST_DEBUG_TEMPROOT": str(self._folder)},
            capture_output=True,
            text=True,
            errors="replace",  # a test that fails may show the bytes of an object
        )
        found = [line.split()[1] for line in done.stdout.splitlines() if line[:7] == "FAILED "]
        # Else the tests could not be run.
        assert done.returncode == len(found), done.stdout + done.stderr
        assert CONTROL not in found, f"with that nothing works:\n{done.stdout}"
        return found

    @contextmanager
    def changed(self, row: Row) -> Iterator[None]:
        path = self._folder / row.file
        source = path.read_text()
        self._write(path, row.changed())
        try:
            yield
        finally:
            self._write(path, source)

    def _write(self, path: Path, source: str) -> None:
        path.write_text(source)
        time = next(self._times)  # tells Python that what it has compiled is of another file
        os.utime(path, (time, time))


def _make_python(folder: Path, first: Path) -> Path:
    venv.create(folder, symlinks=True)
    places = sysconfig.get_paths(vars={"base": str(folder), "platbase": str(folder)})
    lines = (str(first), sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))
    Path(places["purelib"], "mutations.pth").write_text("\n".join(dict.fromkeys(lines)) + "\n")
    return folder / "bin" / Path(sys.executable).name
