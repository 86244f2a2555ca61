# SPDX-License-Identifier: Apache-2.0
"""`python -m tilelace` is the tilelace command; the package has no folder of its own sources."""
import re
import subprocess
import sys

import tilelace
from tilelace import _library


def tilelace_command(*arguments):
    return subprocess.run([sys.executable, "-m", "tilelace", *arguments], capture_output=True,
                          text=True, timeout=300)


def test_doctor_says_what_was_built():
    done = tilelace_command("doctor")
    assert done.returncode == 0, done.stderr
    first = done.stdout.splitlines()[0]
    assert first.startswith(f"package    tilelace {tilelace.__version__} (")
    assert ("CPU ranks only: built without nvcc" in first) == (not tilelace.has_cuda())


def test_bench_and_run():
    done = tilelace_command("bench", "gemm_rs", "--tp", "2", "--m", "32", "--n", "64", "--k", "64")
    assert done.returncode == 0 and "gemm_rs" in done.stdout, done.stderr
    done = tilelace_command("run", "--model", "minilm-l6", "--tp", "2", "--m", "16",
                            "--layer", "0")
    assert done.returncode == 0 and "verified" in done.stdout, done.stderr
    assert tilelace_command("run", "--model", "no-such").returncode == 2


def test_the_library_knows_torch_by_its_stable_abi_alone():
    names = subprocess.run(["nm", "-D", "--undefined-only", "-C", str(_library.LIBRARY)],
                           capture_output=True, text=True, check=True).stdout
    assert "torch_get_mutable_data_ptr" in names and "aoti_torch_get_sizes" in names
    assert not re.findall(r"\b(?:at|c10|torch)::\S*|\b_?Py[A-Z]\w*", names)
