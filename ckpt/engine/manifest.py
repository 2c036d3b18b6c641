# SPDX-License-Identifier: MIT
"""The manifest: what a tree cannot say about the worktree it came from.

Permission bits, empty folders, every path that was left out and why, the exclude files
in force that the tree does not hold, the patterns of what was included all the same, the
operation under way. Holds nothing that changes between two saves of the same state (no
id, no time), so that equal states have equal manifests.
"""

from __future__ import annotations

from collections.abc import Mapping

from ckpt import jsontext
from ckpt.models import NestedState
from ckpt.paths import from_json, to_bytes, to_json
from ckpt.store.operation import Operation
from ckpt.values import field, value_class
from ckpt.worktree.modes import Modes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


@value_class
class Manifest:
    modes: Modes = field(default_factory=Modes)
    empty_folders: tuple[bytes, ...] = ()
    skipped: Mapping[bytes, str] = field(default_factory=dict)
    excludes: Mapping[str, bytes] = field(default_factory=dict)
    include: tuple[str, ...] = ()
    operation: Operation | None = None
    branch: str | None = None
    unskipped: tuple[bytes, ...] = ()
    nested: tuple[NestedState, ...] = ()

    def dump(self) -> bytes:
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
                "executable": f"{self.modes.executable:04o}",
                "folder": None if self.modes.folder is None else f"{self.modes.folder:04o}",
                "folders": _bits_by_path(self.modes.folders),
                "others": _bits_by_path(self.modes.others),
                "plain": f"{self.modes.plain:04o}",
            },
            "nested": [_nested_to_json(state) for state in self.nested],
            "operation": _operation_to_json(self.operation),
            "skipped": [
                to_json(path) | {"reason": str(reason)} for path, reason in self.skipped.items()
            ],
            "unskipped": [to_json(path) for path in self.unskipped],
        }
        return jsontext.dump(document)


def load(document: Mapping[str, Any]) -> Manifest:
    """A manifest from its JSON; ValueError for anything that `dump` would not write.

    What the first manifests did not have yet may be missing.
    """
    from ckpt.store.details import place_of, read_nested

    try:
        return Manifest(
            modes=_modes(document["modes"]),
            empty_folders=tuple(to_bytes(place_of(d)) for d in document["empty_folders"]),
            skipped={from_json(item): str(item["reason"]) for item in document["skipped"]},
            excludes={
                str(name): text.encode("utf-8", "surrogateescape")
                for name, text in document["excludes"].items()
            },
            include=tuple(map(str, document.get("include", ()))),
            operation=_operation(document["operation"]),
            branch=jsontext.text_or_none(document["branch"]),
            unskipped=tuple(from_json(item) for item in document["unskipped"]),
            nested=read_nested(document.get("nested", ())),
        )
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"damaged manifest: {error!r}") from error


def _modes(document: Mapping[str, Any]) -> Modes:
    return Modes(
        plain=_bits(document["plain"]),
        executable=_bits(document["executable"]),
        others={from_json(item): _bits(item["mode"]) for item in document["others"]},
        folder=None if (usual := document.get("folder")) is None else _bits(usual),
        folders={from_json(item): _bits(item["mode"]) for item in document.get("folders", ())},
    )


def _bits_by_path(bits: Mapping[bytes, int]) -> list[dict[str, str]]:
    return [to_json(path) | {"mode": f"{mode:04o}"} for path, mode in sorted(bits.items())]


def _bits(text: str) -> int:
    return int(text, 8) & 0o777


def _nested_to_json(state: NestedState) -> dict[str, Any]:
    document = to_json(state.path) | {
        "branch": state.branch,
        "checkpoint": state.checkpoint,
        "commit": state.commit_hash,
        "dirty": state.dirty,
        "problem": state.problem,
    }
    # Only where there is one: else states would differ from those that an older ckpt has saved.
    known = state.checkpoint_commit
    return document if known is None else document | {"checkpoint_commit": known}


def _operation(document: Mapping[str, Any] | None) -> Operation | None:
    if document is None:
        return None
    name, fingerprint = (jsontext.text_or_none(document[key]) for key in ("name", "fingerprint"))
    if name is None or fingerprint is None:
        raise ValueError("an operation without a name")
    return Operation(name, fingerprint)


def _operation_to_json(operation: Operation | None) -> dict[str, str] | None:
    if operation is None:
        return None
    return {"name": operation.name, "fingerprint": operation.fingerprint}
