# SPDX-License-Identifier: MIT
"""Runs tests on a copy of the checkout from which one defence was taken out.

The copy has a Python of its own that finds `ckpt` there and all else where this one does, so that
also the processes that tests start are without the defence.
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
from pathlib import Path

from defences.table import Defence

CHECKOUT = Path(__file__).parents[2]
COPIED = ("ckpt", "tests", "hooks", "templates", "man", "demo", "pyproject.toml", "README.md")
_NO_TESTS_FAILED, _TESTS_FAILED = 0, 1
# What a defence keeps small may grow without it: the test shall fail, and not the machine.
_LIMITED = ("sh", "-c", 'ulimit -v "$0" && exec "$@"', str(4 << 20))  # KiB


class Mutants:
    def __init__(self, folder: Path) -> None:
        self._checkout = folder / "checkout"
        for name in COPIED:
            _copy(CHECKOUT / name, self._checkout / name)
        self._python = _make_python(folder / "venv", self._checkout)

    def survives(self, defence: Defence) -> bool:
        """Whether the tests that stand for a defence pass without it."""
        with self._without(defence):
            return self.passes(defence)

    def passes(self, defence: Defence) -> bool:
        pytest = [self._python, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
        done = subprocess.run(
            [*_LIMITED, *pytest, *defence.tests],
            cwd=self._checkout,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            errors="replace",  # a test that fails may show the bytes of an object
        )
        # Else the tests could not be run, which proves nothing.
        told = f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
        assert done.returncode in (_NO_TESTS_FAILED, _TESTS_FAILED), told
        return done.returncode == _NO_TESTS_FAILED

    @contextmanager
    def _without(self, defence: Defence) -> Iterator[None]:
        path = self._checkout / defence.module
        source = path.read_text()
        path.write_text(source.replace(defence.code, defence.without))
        try:
            yield
        finally:
            path.write_text(source)


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target)


def _make_python(folder: Path, first: Path) -> Path:
    venv.create(folder, symlinks=True)
    places = sysconfig.get_paths(vars={"base": str(folder), "platbase": str(folder)})
    lines = (str(first), sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))
    Path(places["purelib"], "defences.pth").write_text("\n".join(dict.fromkeys(lines)) + "\n")
    python = folder / "bin" / Path(sys.executable).name
    found = subprocess.run(
        [python, "-I", "-c", "import ckpt; print(ckpt.__file__)"], capture_output=True, text=True
    )
    assert Path(found.stdout.strip()).is_relative_to(first.resolve()), found
    return python
