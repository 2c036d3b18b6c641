# SPDX-License-Identifier: MIT
"""A full disk leaves compiled modules of which only the beginning is there."""

from __future__ import annotations

import marshal
import subprocess
import sys
from pathlib import Path

import pytest

HEADER = 16  # bytes before the code
BLOCK = 4096  # bytes, of nearly every file system
# As a full disk does: what is beyond is not written, and the beginning is.
CUT_OFF = ("sh", "-c", 'ulimit -f 8 && exec "$@"', "sh")  # of 512 bytes


def listed(repo: Path, compiled: Path, *under: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-X", f"pycache_prefix={compiled}", "-m", "ckpt", "list"]
    return subprocess.run([*under, *words], cwd=repo, capture_output=True, text=True)


def compiled_as(module: str, compiled: Path) -> Path:
    folder, _, name = module.rpartition("/")
    (found,) = compiled.glob(f"**/{folder}/{name}.*.pyc")
    return found


@pytest.mark.parametrize(
    "module",
    ["ckpt/cli", "ckpt/disk", "ckpt/errors", "ckpt/manager", "ckpt/output", "ckpt/store/refs"],
)
def test_a_module_that_was_cut_off_is_compiled_anew(
    module: str, repo: Path, tmp_path: Path
) -> None:
    compiled = tmp_path / "compiled"
    whole = listed(repo, compiled)
    cut = compiled_as(module, compiled)
    cut.write_bytes(cut.read_bytes()[:100])

    again = listed(repo, compiled)

    assert (again.returncode, again.stdout, again.stderr) == (0, whole.stdout, "")
    assert not cut.exists()


def test_none_is_left_that_was_not_written_to_its_end(repo: Path, tmp_path: Path) -> None:
    compiled = tmp_path / "compiled"

    assert listed(repo, compiled, *CUT_OFF).returncode == 0

    ours = list(compiled.glob("**/ckpt/**/*.pyc"))
    assert ours
    for file in ours:
        marshal.loads(file.read_bytes()[HEADER:])


@pytest.mark.parametrize("module", ["__init__", "__main__", "bytecode", "shadowing"])
def test_what_is_imported_before_that_is_written_as_a_whole_or_not(
    module: str, tmp_path: Path
) -> None:
    compiled = tmp_path / "compiled"
    words = [sys.executable, "-X", f"pycache_prefix={compiled}", "-c"]
    subprocess.run([*words, f"import ckpt.{module}"], check=True)

    assert compiled_as(f"ckpt/{module}", compiled).stat().st_size <= BLOCK
