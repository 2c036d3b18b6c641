# SPDX-License-Identifier: MIT
"""What a plain `git push` or `git fetch` would do to checkpoints that nobody asked it to.

A remote that is configured as a mirror, or with refspecs as wide, sends every checkpoint to where
others read it, secrets and all. One that is fetched into `refs/*` with pruning takes away here
whatever the other side lacks: all of them. Told by the configuration alone, without asking the
remote. Left out: what someone types (`git push --mirror`), remotes without a name, and those of
old that are files in `.git/remotes`.
"""

from __future__ import annotations

from shlex import quote

from ckpt.engine.health import Flaw
from ckpt.errors import CkptError
from ckpt.models import REF_PREFIX, TRASH_PREFIX
from ckpt.store.config_syntax import parse_bool
from ckpt.store.refspecs import Refspec, is_left_out, origin_of, parse, star, target_of
from ckpt.values import value_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ckpt.store.config import GitConfig
    from ckpt.store.repository import Repository

_ID = "20260101-000000-000-0000"
_ANY = (f"{REF_PREFIX}{_ID}", f"{TRASH_PREFIX}{_ID[:8]}/{_ID}")  # there will be one like these
_BOTH = "refs/checkpoints"  # what the names of checkpoints, dropped or not, begin with
_EVERYTHING = "+refs/*:refs/*"


@value_class
class _Remote:
    name: str
    is_mirror: bool
    push: tuple[Refspec, ...]
    fetch: tuple[Refspec, ...]
    prunes: bool

    def key(self, name: str) -> str:
        return quote(f"remote.{self.name}.{name}")


def find_unasked(repo: Repository) -> Iterator[Flaw]:
    """A flaw for each remote that checkpoints leave by, and for each that takes them away."""
    names = [*_ANY, *_existing(repo)]
    for remote in _remotes(repo.config):
        yield from _pushed(remote, names)
        yield from _fetched(remote, names)


def _existing(repo: Repository) -> Iterator[str]:
    for prefix in (REF_PREFIX, TRASH_PREFIX):
        try:
            yield from (prefix + name for name in repo.refs.contents_below(prefix))
        except CkptError:  # of damaged refs, of which `repair` tells
            return


def _remotes(config: GitConfig) -> Iterator[_Remote]:
    found: dict[str, dict[str, list[str]]] = {}
    for key, value, _ in config.items("remote"):
        name, dot, variable = key.rpartition(".")
        if dot:
            found.setdefault(name, {}).setdefault(variable, []).append(value)
    prunes = ["false", *(value for key, value, _ in config.items("fetch") if key == "prune")]
    for name, values in found.items():
        yield _Remote(
            name,
            parse_bool(values.get("mirror", ["false"])[-1]) is True,
            tuple(map(parse, values.get("push", ()))),
            tuple(map(parse, values.get("fetch", ()))),
            parse_bool(values.get("prune", prunes)[-1]) is True,
        )


def _pushed(remote: _Remote, names: list[str]) -> Iterator[Flaw]:
    refspecs = remote.push or ((parse(":"),) if remote.is_mirror else ())
    guilty = [one for one in refspecs if _sends_any(one, names, refspecs, remote.is_mirror)]
    if not guilty:
        return
    if not remote.push:
        why = f"remote.{remote.name}.mirror is set"
    else:
        why = f"remote.{remote.name}.push is '{guilty[0].text}'"
    told = f"'git push {quote(remote.name)}' sends checkpoints along: {why}"
    yield Flaw("push", False, told, by_hand=_keep_back(remote, guilty))


def _sends_any(
    one: Refspec, names: list[str], refspecs: tuple[Refspec, ...], is_mirror: bool
) -> bool:
    targets = (target_of(one, name, is_mirror=is_mirror) for name in names)
    return any(at is not None and not is_left_out(at, refspecs) for at in targets)


def _keep_back(remote: _Remote, guilty: list[Refspec]) -> str:
    key = remote.key("push")
    own = [one for one in guilty if not one.is_matching and _is_own(one.source)]
    if len(own) == len(guilty):  # made for checkpoints: nothing else goes by them
        return f"git config --fixed-value --unset-all {key} {quote(own[0].text)}"
    wide = next(one for one in guilty if one not in own)
    beyond = target_of(wide, _BOTH, is_mirror=remote.is_mirror)
    leave_out = f"git config --add {key} {quote(f'^{beyond}*')}"
    # A mirror with any refspec goes by its refspecs alone.
    return leave_out if remote.push else f"git config {key} {quote(_EVERYTHING)}; {leave_out}"


def _is_own(pattern: str) -> bool:
    """Whether it is for checkpoints and nothing else."""
    return pattern.startswith(_BOTH) or star(pattern, _BOTH) is None


def _fetched(remote: _Remote, names: list[str]) -> Iterator[Flaw]:
    for one in remote.fetch:
        origins = [origin_of(one, name) for name in names]
        if all(at is None or is_left_out(at, remote.fetch) for at in origins):
            continue
        # A refspec for checkpoints alone is there because somebody wants them.
        beyond = None if _is_own(one.target) else origin_of(one, _BOTH)
        if not remote.prunes and beyond is None:
            continue
        how = "git fetch" if remote.prunes else "git fetch --prune"
        told = (
            f"'{how} {quote(remote.name)}' takes away all checkpoints that the other side lacks: "
            f"remote.{remote.name}.fetch is '{one.text}'"
        )
        yield Flaw("fetch", remote.prunes, told, by_hand=_keep_here(remote, beyond))


def _keep_here(remote: _Remote, beyond: str | None) -> str:
    if beyond is None:
        return f"git config {remote.key('prune')} false"
    return f"git config --add {remote.key('fetch')} {quote(f'^{beyond}*')}"
