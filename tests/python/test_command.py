# SPDX-License-Identifier: Apache-2.0
"""`python -m tilelace` is the tilelace command; the package has no folder of its own sources."""
import re
import subprocess
import sys
from pathlib import Path

import pytest
import tilelace
from tilelace import _library

ROOT = Path(__file__).resolve().parents[2]


def tilelace_command(*arguments):
    return subprocess.run([sys.executable, "-m", "tilelace", *arguments], check=False, capture_output=True,
                          text=True, timeout=300)


def test_doctor_says_what_was_built():
    done = tilelace_command("doctor")
    assert done.returncode == 0, done.stderr
    first = done.stdout.splitlines()[0]
    assert first.startswith(f"package    tilelace {tilelace.__version__} (")
    assert tilelace.has_cuda() or re.search(
        r"CPU ranks only: (nvcc: got .*, expected 13.0|TILELACE_GPUS: got OFF, expected)", first), first


def configured(tmp_path, release):
    """What a build that pip asks for finds where nvcc is of this release."""
    nvcc = tmp_path / "nvcc"
    nvcc.write_text(f"#!/bin/sh\necho 'Cuda compilation tools, release {release}, V{release}.1'\n")
    nvcc.chmod(0o755)
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(probe NONE)\n"
        f"set(TILELACE_GPUS AUTO)\ninclude({ROOT}/cmake/python.cmake)\n"
        'message(STATUS "cuda ${TILELACE_CUDA}")\n')
    return subprocess.run(
        ["cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DTILELACE_CUDA_COMPILER={nvcc}",
         f"-DPython_EXECUTABLE={sys.executable}"], check=False, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(("release", "gpus"), [("12.4", False), ("13.0", True), ("13.2", True)])
def test_gpus_where_nvcc_is_new_enough(tmp_path, release, gpus):
    done = configured(tmp_path, release)
    assert done.returncode == 0, done.stderr
    assert ("cuda ON" if gpus else "cuda OFF") in done.stdout, done.stdout
    why = tmp_path / "build" / "why_no_gpus.txt"
    assert why.is_file() != gpus
    if not gpus:
        assert "nvcc: got 12.4, expected 13.0 or later: this build has CPU ranks" in " ".join(
            done.stderr.split())
        assert why.read_text() == "nvcc: got 12.4, expected 13.0 or later\n"


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
