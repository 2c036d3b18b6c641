# SPDX-License-Identifier: MIT
"""Wheels of what is installed here, so that pip finds what it needs without a download."""

from __future__ import annotations

import re
import zipfile
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

NEEDED = ("hatchling", "dulwich", "tomli")  # to build ckpt and to run it
_NAME = re.compile(r"[\w.-]+")


def wheelhouse(folder: Path) -> Path:
    """A folder for pip's `--find-links`, with all that ckpt needs and what that needs itself."""
    folder.mkdir()
    names, packed = [*NEEDED], set[str]()
    while names:
        name = names.pop()
        if name in packed:
            continue
        packed.add(name)
        try:
            installed = distribution(name)
        except PackageNotFoundError:  # not every Python needs all of them
            continue
        _pack(installed, folder)
        names += [_NAME.match(each)[0] for each in installed.requires or () if "extra" not in each]
    return folder


def _pack(installed: Distribution, folder: Path) -> None:
    tag = next(
        line.removeprefix("Tag: ")
        for line in (installed.read_text("WHEEL") or "").splitlines()
        if line.startswith("Tag: ")
    )
    name = installed.metadata["Name"].replace("-", "_")
    files = [each for each in installed.files or () if _belongs(str(each))]
    with zipfile.ZipFile(folder / f"{name}-{installed.version}-{tag}.whl", "w") as wheel:
        for each in files:
            if each.name != "RECORD":
                wheel.write(str(each.locate()), str(each))
        [record] = [each for each in files if each.name == "RECORD"]
        wheel.writestr(str(record), "".join(f"{each},,\n" for each in files))


def _belongs(path: str) -> bool:
    """Whether a file came out of the wheel, and was not made when it was installed."""
    made = ("INSTALLER", "REQUESTED", "direct_url.json")
    return not path.startswith("..") and "__pycache__" not in path and not path.endswith(made)
