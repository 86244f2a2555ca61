# SPDX-License-Identifier: Apache-2.0
"""torch.ops.tilelace beside what PyTorch has, on the same tensors in one run.

python -m torch.distributed.run --standalone --nproc-per-node N tools/torch_bench WHAT [options]
  WHAT: ag_gemm, gemm_rs, gemm_ar (rows of the dense tables), stack (Qwen2.5-72B's layers),
  host (what a call keeps the host busy with, here and in C++), listed (rows of --rows FILE,FILE beside
  the best peers, see listed.py; without GPUs a dry run), norms, decode (all_reduce_norm beside a sum and
  a norm, alone and behind products, see norms.py; likewise), hugging_face (transformers' Llama beside its
  own forward, see hugging_face.py; likewise)
  --tokens A,B (m)  --models A,B  --rounds N  --json FILE ("-": standard output; appended)  --commit ID
  of listed, norms and decode: --seconds S (rows that begin later are left out, and named; norms, decode:
  140 unless told, hugging_face 180); of listed: --calls N (at most, of a
  graph: 4, 8 or 16), --without A,B (ways; or cublasLt); a JSON file that is there is gone on with,
  behind the row that ended the last run
Times are of CUDA graphs (and of eager calls beside them): rounds interleaved, every sample after
40 ms of its own load, median over rounds, the slowest rank counts. NVLink multicast stays off.
Exit: 0 done and verified, 1 a result was wrong, 2 usage.
"""
import argparse
import json
import os
import sys
import time
from datetime import timedelta
from pathlib import Path

BEGAN = time.monotonic()  # torch may come from a cold disk
# Before torch and NCCL look at them.
os.environ.update(TORCH_SYMM_MEM_DISABLE_MULTICAST="1", NCCL_NVLS_ENABLE="0", NVSHMEM_DISABLE_NVLS="1")
sys.path.insert(0, str(Path(__file__).resolve().parent))

import host
import listed
import norms
import rows
import stack
import torch
import torch.distributed as dist
from timing import GPUS, Timer, meet


def arguments():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("what", choices=("ag_gemm", "gemm_rs", "gemm_ar", "stack", "host", "listed", "norms", "decode",
                                         "hugging_face"))
    parser.add_argument("--tokens", type=lambda s: [int(m) for m in s.split(",")])
    parser.add_argument("--models", type=lambda s: s.split(","), default=["llama70b", "qwen32b"])
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--rows", type=lambda s: s.split(","), default=[])
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--calls", type=int, choices=(4, 8, 16), default=16)
    parser.add_argument("--without", type=lambda s: s.split(","), default=[])
    parser.add_argument("--json", default="")
    parser.add_argument("--commit", default=None)
    asked = parser.parse_args()
    asked.began = BEGAN
    unknown = set(asked.models) - set(rows.MODELS)
    if unknown:
        parser.error(f"--models: got {', '.join(unknown)}, expected of {', '.join(rows.MODELS)}")
    if (asked.what == "listed") != bool(asked.rows):
        parser.error("--rows: expected files with `listed`, and with nothing else")
    return asked


def main():
    asked = arguments()
    if GPUS:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    dist.init_process_group("cpu:gloo,cuda:nccl" if GPUS else "gloo", timeout=timedelta(seconds=60))
    timer = Timer(asked.rounds)
    if asked.what == "hugging_face":  # takes seconds, and transformers
        from hugging_face import measure as hugging_face
    else:
        hugging_face = None
    measure = {"stack": stack.measure, "host": host.measure, "listed": listed.measure,
               "norms": norms.measure, "decode": norms.measure, "hugging_face": hugging_face}.get(asked.what, rows.measure)
    good = True
    with torch.inference_mode():
        for record in measure(asked, timer):
            good = good and record["verified"]
            record["commit"] = asked.commit
            if dist.get_rank() == 0 and asked.json:
                line = json.dumps(record, separators=(",", ":"))
                if asked.json == "-":
                    print(line, flush=True)
                else:
                    with open(asked.json, "a") as out:
                        out.write(line + "\n")
    meet()
    # Not destroy_process_group: captured NCCL communicators may wait for each other in it.
    sys.stdout.flush()
    os._exit(0 if good else 1)


if __name__ == "__main__":
    main()
