# SPDX-License-Identifier: Apache-2.0
"""The cases under torchrun, on CPU ranks: one launch for each number of ranks."""
import functools
import importlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from cases.world import MODULES, cases_of  # noqa: E402

for _module in MODULES:
    importlib.import_module(f"cases.{_module}")


@functools.cache
def results(ranks):
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "results.json"
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone",
                   f"--nproc-per-node={ranks}", str(HERE / "run_cases.py"), str(out)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600,
                              env={**os.environ, "OMP_NUM_THREADS": "1"})
        assert out.exists(), f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return json.loads(out.read_text())


@pytest.mark.parametrize(
    ("name", "ranks"),
    [pytest.param(name, n, marks=pytest.mark.xdist_group(f"{n} ranks"))
     for n in (2, 3, 4) for name in cases_of("cpu", n)])
def test_case(name, ranks):
    errors = results(ranks)[name]["errors"]
    texts = [f"rank {r}:\n{text}" for r, text in enumerate(errors) if text]
    assert not texts, "\n".join(texts)


def test_a_name_without_cases_is_no_success():
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=1",
               str(HERE / "run_cases.py"), "-", "no such case"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0 and "nothing was tested" in done.stdout, done.stdout + done.stderr
