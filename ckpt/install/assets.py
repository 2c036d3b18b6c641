# SPDX-License-Identifier: MIT
"""Where the files are that ship beside the code: `hooks/`, `templates/`, `man/`.

A wheel carries them inside the package, in `_assets`; a checkout, an unpacked sdist
and an editable install have them in the folder that holds the package. The first
place rules out the second: next to an installed package lie other people's folders.
"""

from __future__ import annotations

from pathlib import Path

from ckpt.errors import CkptError

_PACKAGE = Path(__file__).resolve().parent.parent


def asset(name: str) -> Path:
    """The file or folder of that name, such as `hooks/guard`."""
    packed = _PACKAGE / "_assets"
    path = (packed if packed.is_dir() else _PACKAGE.parent) / name
    if not path.exists():
        raise CkptError(
            f"this installation of ckpt lacks its file '{name}'",
            hint="python3 -m pip install --force-reinstall git-ckpt",
        )
    return path
