# SPDX-License-Identifier: Apache-2.0
"""The tilelace command (run, bench, plan, check, simulate, doctor ...), beside the package: it imports
torch only where it asks torch, so the command starts at once."""
from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "tilelace"
COMMAND = FOLDER / "bin" / "tilelace"
WHY_NO_GPUS = FOLDER / "why_no_gpus.txt"  # of builds without them
STACKS = ("numpy", "triton", "transformers", "megatron-core", "vllm", "sglang")


def torch_text() -> str:
    """Torch's version, and the libraries of CUDA that it was built with."""
    import torch

    parts = [torch.__version__, f"CUDA {torch.version.cuda or 'none'}"]
    if torch.distributed.is_available() and torch.distributed.is_nccl_available():
        parts.append("NCCL " + ".".join(map(str, torch.cuda.nccl.version())))
    return ", ".join(parts)


def python_text() -> str:
    """Python's version and those of packages that call or extend this one."""
    found = [f"{platform.python_implementation()} {platform.python_version()}"]
    for name in STACKS:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return ", ".join(found)


def library_path(path: str) -> str:
    """LD_LIBRARY_PATH with the folders of NCCL and cuBLAS behind it that PyTorch brings: ranks in Python
    have these loaded, and the command is to find the same."""
    spec = importlib.util.find_spec("nvidia")
    roots = spec.submodule_search_locations if spec else None
    folders = [str(library.parent) for root in roots or [] for name in ("libnccl.so.*", "libcublasLt.so.*")
               for library in sorted(Path(root).glob(f"*/lib/{name}"))]
    return ":".join(dict.fromkeys([*filter(None, path.split(":")), *folders]))


def tell_package(for_report: bool) -> None:
    """What the command cannot know: the package, and the torch that it runs beside."""
    import tilelace

    why = WHY_NO_GPUS.read_text().strip() if WHY_NO_GPUS.is_file() else "built without them"
    backend = "CPU ranks and GPUs" if tilelace.has_cuda() else f"CPU ranks only: {why}"
    lines = {"package": f"tilelace {tilelace.__version__} ({backend})", "torch": torch_text()}
    if for_report:
        lines["Python"] = python_text()
    for name, text in lines.items():
        print(f"{name:<18} {text}", flush=True)


def main() -> int:
    """Becomes the command; `doctor` first tells what this package is built for."""
    if not COMMAND.is_file():
        print(f"tilelace: the command {COMMAND} is missing: install the package again", file=sys.stderr)
        return 2
    if sys.argv[1:2] == ["doctor"] and "--json" not in sys.argv:
        tell_package("--report" in sys.argv)
    environment = dict(os.environ)
    if sys.argv[1:2] != ["launch"]:  # whose programs look after themselves
        environment["LD_LIBRARY_PATH"] = library_path(environment.get("LD_LIBRARY_PATH", ""))
    os.execve(COMMAND, [str(COMMAND), *sys.argv[1:]], environment)

