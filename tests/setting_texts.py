# SPDX-License-Identifier: MIT
"""Settings out of what a person writes: a file, git config, the environment."""

from __future__ import annotations

import pytest

from ckpt.errors import UsageError
from ckpt.settings.settings import Settings, load
from ckpt.settings.sources import (
    Said,
    from_ckpt_toml,
    from_environ,
    from_git_config,
)


def of_file(text: str) -> Settings:
    return load([from_ckpt_toml(text.encode())])


def of_git(*items: tuple[str, str]) -> Settings:
    return load([from_git_config((name, value, "/x/config") for name, value in items)])


def of_env(**env: str) -> Settings:
    return load([from_environ(env)])


def error_of(*sources: list[Said]) -> UsageError:
    with pytest.raises(UsageError) as caught:
        load(sources)
    return caught.value
