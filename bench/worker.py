# SPDX-License-Identifier: MIT
"""A process that lives on and takes checkpoints: each line read is one `manager.create()`.

It answers with the seconds that this took and the ref that was made, as JSON. Run as a
file of its own, so that it loads nothing of the bench.
"""

from __future__ import annotations

import json
import sys
from time import perf_counter

from ckpt import CheckpointManager


def main(top: str, session: str | None = None) -> None:
    kind = "manual" if session is None else "auto"
    with CheckpointManager(top, session=session) as manager:
        for _ in sys.stdin:
            started = perf_counter()
            saved = manager.create(kind=kind)
            seconds = perf_counter() - started
            assert saved.checkpoint is not None
            answer = {"seconds": seconds, "ref": saved.checkpoint.ref}
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
