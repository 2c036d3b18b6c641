# SPDX-License-Identifier: MIT
"""How the answer of `git ckpt gc` looks as text: what was done, and nothing that was not."""

from __future__ import annotations

from ckpt.render import size, space

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ckpt.engine.gc import Collected


def collected(done: Collected) -> Iterator[str]:
    packed = done.repacked
    if done.emptied:
        yield f"Removed {_count(len(done.emptied), 'checkpoint')} from the trash"
    if done.cleared:
        yield f"Removed {_count(len(done.cleared), 'file')} that killed processes left"
    if packed.objects:
        saved = f"{size(packed.loose_bytes)} to {size(packed.pack_bytes)}"
        yield f"Packed {_count(packed.objects, 'object')}, from {saved}"
    if done.packed_refs:
        yield f"Packed {_count(done.packed_refs, 'ref')}"
    if not (done.emptied or done.cleared or packed.objects or packed.removed or done.packed_refs):
        yield "Nothing to do."
    yield space(done.space)
    if done.emptied:
        yield "what nothing holds any more goes with: git gc"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
