# SPDX-License-Identifier: MIT
"""Every parser of the table again, fed by a fuzzer that sees which branches its bytes reach.

hypothesis damages what is right without looking; atheris keeps what led somewhere new and goes
on from there, so that it learns a format in a minute or two. Run by `make fuzz-guided`:

    python tests/fuzz/guided.py SECONDS [PARSER...]

Each parser has a process of its own, because atheris ends the one that it runs in.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.parsers import PARSERS, Parser

LONGEST_INPUT = 4096  # bytes
# What one input may take at the most, in seconds and MB.
SLOWEST, MOST_MEMORY = 10, 1024


def main(seconds: str, *names: str) -> int:
    names = names or (*table(),)
    failed = [name for name in names if not passes(name, seconds)]
    print(f"{len(names)} parsers, {seconds} seconds each, {len(failed)} failed {failed or ''}")
    return bool(failed)


def table() -> dict[str, Parser]:
    from fuzz import git_files, own_files

    assert git_files and own_files  # which fill it
    return PARSERS


def passes(name: str, seconds: str) -> bool:
    with tempfile.TemporaryDirectory(prefix="ckpt-fuzz-") as folder:
        words = [sys.executable, __file__, "--one", name, seconds, folder]
        done = subprocess.run(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    said = done.stdout.decode(errors="replace").splitlines()
    runs = [line for line in said if line.startswith("Done ")]
    print(f"{name}: {runs[-1] if runs else 'failed'}", flush=True)
    if done.returncode != 0:
        print("\n".join(said[-40:]), flush=True)
    return done.returncode == 0


def fuzz(name: str, seconds: str, folder: str) -> None:
    import atheris

    with atheris.instrument_imports(include=["ckpt"], enable_loader_override=False):
        parser = table()[name]
    work, seeds = Path(folder, "work"), Path(folder, "seeds")
    work.mkdir()
    seeds.mkdir()
    samples, read = parser.build(work)
    for number, sample in enumerate(samples):
        (seeds / str(number)).write_bytes(sample)

    def once(data: bytes) -> None:
        try:
            read(data)
        except parser.raises:
            pass

    limits = [f"-timeout={SLOWEST}", f"-rss_limit_mb={MOST_MEMORY}", f"-max_len={LONGEST_INPUT}"]
    atheris.Setup([sys.argv[0], f"-max_total_time={seconds}", *limits, str(seeds)], once)
    atheris.Fuzz()


if __name__ == "__main__":
    if sys.argv[1] == "--one":
        fuzz(*sys.argv[2:])
    else:
        sys.exit(main(*sys.argv[1:]))
