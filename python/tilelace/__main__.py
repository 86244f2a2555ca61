# SPDX-License-Identifier: Apache-2.0
"""`python -m tilelace ...`: the tilelace command (run, bench, plan, check, simulate, doctor ...)."""
from __future__ import annotations

import os
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
COMMAND = FOLDER / "bin" / "tilelace"
WHY_NO_GPUS = FOLDER / "why_no_gpus.txt"  # of builds without them


def main() -> int:
    """Becomes the command; `doctor` first tells what this package is built for."""
    if not COMMAND.is_file():
        print(f"tilelace: the command {COMMAND} is missing: install the package again", file=sys.stderr)
        return 2
    if sys.argv[1:2] == ["doctor"] and "--json" not in sys.argv:
        import torch

        import tilelace

        why = WHY_NO_GPUS.read_text().strip() if WHY_NO_GPUS.is_file() else "built without them"
        backend = "CPU ranks and GPUs" if tilelace.has_cuda() else f"CPU ranks only: {why}"
        print(f"package    tilelace {tilelace.__version__} ({backend}), torch {torch.__version__}",
              flush=True)
    os.execv(COMMAND, [str(COMMAND), *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
