# SPDX-License-Identifier: Apache-2.0
"""`python -m tilelace ...`: the tilelace command (run, bench, plan, check, simulate, doctor ...)."""
from __future__ import annotations

import os
import sys
from pathlib import Path

COMMAND = Path(__file__).resolve().parent / "bin" / "tilelace"


def main() -> int:
    """Becomes the command; `doctor` first tells what this package is built for."""
    if not COMMAND.is_file():
        print(f"tilelace: {COMMAND}, got no such file, expected the command", file=sys.stderr)
        return 2
    if sys.argv[1:2] == ["doctor"] and "--json" not in sys.argv:
        import torch

        import tilelace

        backend = "CPU ranks and GPUs" if tilelace.has_cuda() else (
            "CPU ranks only: built without nvcc")
        print(f"package    tilelace {tilelace.__version__} ({backend}), torch {torch.__version__}",
              flush=True)
    os.execv(COMMAND, [str(COMMAND), *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
