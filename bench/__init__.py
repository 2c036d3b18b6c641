# SPDX-License-Identifier: MIT
"""How quick ckpt is beside git's own plumbing: `make bench`, or `python -m bench -h`."""
