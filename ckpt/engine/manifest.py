# SPDX-License-Identifier: MIT
"""What a state is besides trees, and its JSON in a checkpoint: permission bits, empty folders,
what was skipped, ignore rules that no tree holds, repositories inside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ckpt import jsontext
from ckpt.git import record
from ckpt.git.operation import Operation
from ckpt.models import NestedState
from ckpt.paths import from_json, to_bytes, to_json
from ckpt.worktree.modes import Modes


class Manifest(NamedTuple):
    """What a state is besides trees. `excludes` are the ignore rules that no tree holds;
    `unskipped` are marked skip-worktree and on disk all the same."""

    modes: Modes = Modes()
    empty_folders: tuple[bytes, ...] = ()
    skipped: Mapping[bytes, str] = {}
    excludes: Mapping[str, bytes] = {}
    include: tuple[str, ...] = ()
    operation: Operation | None = None
    branch: str | None = None
    unskipped: tuple[bytes, ...] = ()
    nested: tuple[NestedState, ...] = ()

    def dump(self) -> bytes:
        modes, operation = self.modes, self.operation
        document = {
            "branch": self.branch,
            "empty_folders": [to_json(path) for path in self.empty_folders],
            "excludes": {
                name: text.decode("utf-8", "surrogateescape")
                for name, text in self.excludes.items()
            },
            "format": 1,
            "include": list(self.include),
            "modes": {
                "executable": f"{modes.executable:04o}",
                "folder": None if modes.folder is None else f"{modes.folder:04o}",
                "folders": _bits_by_path(modes.folders),
                "others": _bits_by_path(modes.others),
                "plain": f"{modes.plain:04o}",
            },
            "nested": [_nested_to_json(state) for state in self.nested],
            "operation": operation
            and {"name": operation.name, "fingerprint": operation.fingerprint},
            "skipped": [to_json(path) | {"reason": str(why)} for path, why in self.skipped.items()],
            "unskipped": [to_json(path) for path in self.unskipped],
        }
        return jsontext.dump(document)


def _nested_to_json(state: NestedState) -> dict[str, Any]:
    return {
        **to_json(state.path),
        "branch": state.branch,
        "checkpoint": state.checkpoint,
        "checkpoint_commit": state.checkpoint_commit,
        "commit": state.commit_hash,
        "dirty": state.dirty,
        "problem": state.problem,
    }


def read_manifest(document: Mapping[str, Any]) -> Manifest:
    """A manifest from its JSON; ValueError for anything that `dump` would not write."""
    try:
        modes, told = document["modes"], document["operation"]
        operation = None
        if told is not None:
            operation = Operation(_text(told["name"]), _text(told["fingerprint"]))
        return Manifest(
            modes=Modes(
                plain=_bits(modes["plain"]),
                executable=_bits(modes["executable"]),
                others={from_json(item): _bits(item["mode"]) for item in modes["others"]},
                folder=None if modes["folder"] is None else _bits(modes["folder"]),
                folders={from_json(item): _bits(item["mode"]) for item in modes["folders"]},
            ),
            empty_folders=tuple(to_bytes(record.place_of(d)) for d in document["empty_folders"]),
            skipped={from_json(item): str(item["reason"]) for item in document["skipped"]},
            excludes={
                str(name): text.encode("utf-8", "surrogateescape")
                for name, text in document["excludes"].items()
            },
            include=tuple(map(str, document["include"])),
            operation=operation,
            branch=jsontext.text_or_none(document["branch"]),
            unskipped=tuple(from_json(item) for item in document["unskipped"]),
            nested=record.read_nested(document["nested"]),
        )
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"damaged manifest: {error!r}") from error


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.40} is no text")
    return value


def _bits_by_path(bits: Mapping[bytes, int]) -> list[dict[str, str]]:
    return [to_json(path) | {"mode": f"{mode:04o}"} for path, mode in sorted(bits.items())]


def _bits(text: str) -> int:
    return int(text, 8) & 0o777
