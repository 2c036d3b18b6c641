# SPDX-License-Identifier: MIT
"""The format of a repository: which extensions it uses, and whether ckpt knows them.

Git writes them into the repository's own config file, and only there do they count. An
extension that ckpt does not know may change what anything in the repository means, so
it is refused, by name, before anything is written.
"""

from __future__ import annotations

from collections.abc import Iterable

from ckpt.errors import Refused
from ckpt.store.config import GitConfig
from ckpt.values import value_class

_KNOWN_EXTENSIONS = {
    "noop",
    "noop-v1",
    "objectformat",
    "partialclone",
    "preciousobjects",
    "refstorage",
    "relativeworktrees",
    "worktreeconfig",
}
_EXTENSIONS_OF_VERSION_1 = {"noop-v1", "objectformat", "refstorage", "relativeworktrees"}
_TOO_OLD = "'pip install --upgrade git-ckpt' may bring one that knows it"


@value_class
class RepositoryFormat:
    """`is_partial`: objects may be missing here because a remote promised to have them."""

    hash_name: str = "sha1"
    ref_storage: str = "files"
    is_partial: bool = False


def read_format(config: GitConfig, config_file: str) -> RepositoryFormat:
    """The format that a repository's own config file declares; refuses an unknown one."""
    own = [(name, value) for name, value, file in config.items("core") if file == config_file]
    version = dict(own).get("repositoryformatversion", "0")
    if version not in ("0", "1"):
        raise Refused(f"expected git repo version <= 1, found {version}", hint=_TOO_OLD)
    extensions = {
        name.lower(): value
        for name, value, file in config.items("extensions")
        if file == config_file
    }
    _check_extensions(version, extensions)
    return RepositoryFormat(
        hash_name=_known(extensions, "objectformat", ("sha1", "sha256"), "object format"),
        # A newer git may name a place too, as in `files:///elsewhere`; that is unknown here.
        ref_storage=_known(extensions, "refstorage", ("files", "reftable"), "ref storage format"),
        is_partial="partialclone" in extensions or _has_promisor(config.items("remote")),
    )


def _check_extensions(version: str, extensions: Iterable[str]) -> None:
    for name in extensions:
        if version == "0" and name in _EXTENSIONS_OF_VERSION_1:
            raise Refused(
                f"repo version is 0, but v1-only extension found: '{name}'",
                hint="git config -f .git/config core.repositoryFormatVersion 1",
            )
        if version == "1" and name not in _KNOWN_EXTENSIONS:
            raise Refused(f"unknown repository extension found: '{name}'", hint=_TOO_OLD)


def _known(extensions: dict[str, str], name: str, known: tuple[str, ...], what: str) -> str:
    value = extensions.get(name, known[0])
    if value not in known:
        raise Refused(f"unknown {what} '{value}'", hint=_TOO_OLD)
    return value


def _has_promisor(remotes: Iterable[tuple[str, str, str]]) -> bool:
    promises = {name: value.lower() for name, value, _ in remotes if name.endswith(".promisor")}
    return any(value in ("true", "yes", "on", "1") for value in promises.values())
