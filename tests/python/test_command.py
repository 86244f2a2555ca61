# SPDX-License-Identifier: Apache-2.0
"""The tilelace command that the package brings."""
import functools
import importlib.util
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest
import tilelace
import tomllib
import torch
from tilelace import _library

ROOT = Path(__file__).resolve().parents[2]


def tilelace_command(*arguments, **variables):
    return subprocess.run([Path(sys.executable).parent / "tilelace", *arguments], check=False,
                          capture_output=True, text=True, timeout=300, env={**os.environ, **variables})


@functools.cache
def doctor(*arguments, **variables):
    """Its lines, and each first word with the rest of its line."""
    done = tilelace_command("doctor", *arguments, **variables)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    return lines, {line[:18].strip(): line[19:] for line in lines}


def test_doctor_says_what_was_built():
    lines, found = doctor()
    assert lines[0].startswith(f"package            tilelace {tilelace.__version__} (")
    assert tilelace.has_cuda() or re.search(
        r"CPU ranks only: (nvcc: got .*, expected 13.0|NVIDIA driver: got none|it was built with TILELACE_GPUS=OFF)",
        lines[0]), lines[0]
    assert found["torch"].startswith(f"{torch.__version__}, CUDA {torch.version.cuda or 'none'}")
    # No advice that only a clone of the repository can follow.
    assert "preset" not in "\n".join(lines)


def test_doctor_finds_the_nccl_that_torch_brings():
    if not (torch.distributed.is_nccl_available() and importlib.util.find_spec("nvidia")):
        pytest.skip("this torch brings no NCCL")
    wanted = ".".join(map(str, torch.cuda.nccl.version()))
    _, found = doctor()
    assert found["NCCL"] == wanted and f"NCCL {wanted}" in found["torch"]


def test_report_can_be_pasted(tmp_path):
    lines, found = doctor("--report", HOME=str(tmp_path), NCCL_DEBUG="INFO",
                          TILELACE_TUNING=f"{tmp_path}/plans.json")
    text = "\n".join(lines)
    assert found["Python"].startswith(f"CPython {platform.python_version()}, numpy ")
    for part in ("tilelace", "build", "system", "CPU", "cores", "torch", "GPU ranks"):
        assert found[part], text
    assert "NCCL_DEBUG=INFO" in lines and "TILELACE_TUNING=~/plans.json" in lines
    assert str(tmp_path) not in text and "LD_LIBRARY_PATH" not in text
    host = platform.node()
    assert len(host) < 6 or host not in text


def configured(tmp_path, release, driver, gpus="AUTO"):
    """What a build that pip asks for finds where nvcc is of this release, and a driver is there or is not."""
    nvcc = tmp_path / "nvcc"
    nvcc.write_text(f"#!/bin/sh\necho 'Cuda compilation tools, release {release}, V{release}.1'\n")
    nvcc.chmod(0o755)
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(probe NONE)\n"
        f"set(TILELACE_GPUS {gpus})\ninclude({ROOT}/cmake/python.cmake)\n"
        'message(STATUS "cuda ${TILELACE_CUDA}")\n')
    done = subprocess.run(
        ["cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DTILELACE_CUDA_COMPILER={nvcc}",
         f"-DTILELACE_CUDA_DRIVER={'libcuda.so.1' if driver else 'OFF'}",
         f"-DPython_EXECUTABLE={sys.executable}"], check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    why = tmp_path / "build" / "why_no_gpus.txt"
    return "cuda ON" in done.stdout, why.read_text() if why.is_file() else "", " ".join(done.stderr.split())


@pytest.mark.parametrize(("release", "driver", "gpus"), [
    ("13.0", True, "AUTO"), ("13.2", True, "AUTO"), ("13.0", False, "ON")])
def test_gpus_where_nvcc_and_driver_are_or_where_asked_for(tmp_path, release, driver, gpus):
    assert configured(tmp_path, release, driver, gpus)[:2] == (True, "")


@pytest.mark.parametrize(("release", "driver", "why"), [
    ("12.4", True, "nvcc: got 12.4, expected 13.0 or later"),
    ("13.0", False, ("NVIDIA driver: got none of libcuda.so.1, nvidia-smi and /dev/nvidia0, expected one; "
     "without a driver, too: pip install . -C cmake.define.TILELACE_GPUS=ON, which takes half an hour or more")),
])
def test_no_gpus_says_why(tmp_path, release, driver, why):
    cuda, file, warning = configured(tmp_path, release, driver)
    assert not cuda and file == why + "\n"
    assert why + ": this build has CPU ranks only" in warning


def test_gpus_left_out_by_the_caller(tmp_path):
    assert configured(tmp_path, "13.0", True, "OFF")[:2] == (
        False, "it was built with TILELACE_GPUS=OFF\n")


@pytest.mark.parametrize("page", ["README.md", "docs/pytorch.md"])
def test_recipe_without_isolation_names_what_the_build_requires(page):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    recipe = re.search(r"pip install ([^#\n]*)\s+#.*\npip install --no-build-isolation \.", (ROOT / page).read_text())[1]
    named = set(recipe.split())
    for wanted in [*project["build-system"]["requires"], *project["project"]["dependencies"]]:
        assert named & {wanted, wanted.split(">=")[0]}, f"{page}: {wanted} is not in: pip install {recipe}"


def test_bench_and_run():
    done = tilelace_command("bench", "gemm_rs", "--tp", "2", "--m", "32", "--n", "64", "--k", "64")
    assert done.returncode == 0 and "gemm_rs" in done.stdout, done.stderr
    done = tilelace_command("run", "--model", "minilm-l6", "--tp", "2", "--m", "16",
                            "--layer", "0")
    assert done.returncode == 0 and "verified" in done.stdout, done.stderr
    assert tilelace_command("run", "--model", "no-such").returncode == 2


def test_the_command_starts_without_torch():
    program = ("import sys, tilelace_command\n"
               "tilelace_command.os.execve = lambda *_: print('torch' in sys.modules)\n"
               "sys.argv = ['tilelace', 'plan']\ntilelace_command.main()\n")
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=60)
    assert done.stdout == "False\n", done.stderr


def test_a_module_of_python_is_the_command_too():
    done = subprocess.run([sys.executable, "-m", "tilelace", "--version"], check=False, capture_output=True,
                          text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, tilelace_command("--version").stdout), done.stderr


def test_the_library_knows_torch_by_its_stable_abi_alone():
    names = subprocess.run(["nm", "-D", "--undefined-only", "-C", str(_library.LIBRARY)],
                           capture_output=True, text=True, check=True).stdout
    assert "torch_get_mutable_data_ptr" in names and "aoti_torch_get_sizes" in names
    assert not re.findall(r"\b(?:at|c10|torch)::\S*|\b_?Py[A-Z]\w*", names)
