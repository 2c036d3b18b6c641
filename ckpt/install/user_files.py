# SPDX-License-Identifier: MIT
"""Where a user's own files are: git's global configuration, and what ckpt keeps for them.

The rules are git's and the XDG base directories'; nothing is created here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from ckpt.errors import CkptError


def global_config_path(env: Mapping[str, str]) -> str:
    """The file that `git config --global` writes."""
    named = env.get("GIT_CONFIG_GLOBAL")
    if named is not None:
        return os.path.abspath(named or os.devnull)
    plain = os.path.join(_home(env), ".gitconfig")
    other = os.path.join(config_home(env), "git", "config")
    return other if os.path.exists(other) and not os.path.exists(plain) else plain


def config_home(env: Mapping[str, str]) -> str:
    return env.get("XDG_CONFIG_HOME") or os.path.join(_home(env), ".config")


def data_home(env: Mapping[str, str]) -> str:
    """What the XDG rules call the user's data folder."""
    return env.get("XDG_DATA_HOME") or os.path.join(_home(env), ".local", "share")


def data_dir(env: Mapping[str, str]) -> str:
    """The folder for files that ckpt installs for a user."""
    return os.path.join(data_home(env), "ckpt")


def _home(env: Mapping[str, str]) -> str:
    home = env.get("HOME")
    if not home:
        raise CkptError("$HOME is not set", hint="set HOME to your home folder, then try again")
    return home
