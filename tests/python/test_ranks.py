# SPDX-License-Identifier: Apache-2.0
"""The cases of CPU ranks: one launch for each number of them, forked from here, so that torch is
imported once."""
import faulthandler
import functools
import importlib
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import run_cases
from cases.world import MODULES, cases_of
from test_faults import free_port

LAUNCH_S = 600
NIGHT = "TILELACE_TEST_TIMES" in os.environ  # tools/night.sh
PLANS = "compiled_plans.plans_are_fused"
SYMBOLS = "compiled_plans.sizes_may_be_symbols"  # compiled_sizes, of the gate, has calls of such sizes


# Graphs of whole models, which take as long to compile as all else of their files.
NIGHTS = ("hugging_face.a_model_is_one_graph", "layers_more.they_are_whole_graphs",
          "styles.styles_are_whole_graphs")


def gate_has(name, ranks):
    """Compiled regions on three and four ranks are the night's: two ranks have all of them. So are the
    trained plans of a bias and of sequence parallelism alone: those of neither and of both stay."""
    if NIGHT:
        return True
    if name in NIGHTS:
        return False
    if not name.startswith("compiled"):
        return True
    return ranks == 2 and name not in (f"{PLANS}[True,False]", f"{PLANS}[False,True]", SYMBOLS)


for _module in MODULES:
    importlib.import_module(f"cases.{_module}")


def rank_of(rank, ranks, port, folder, names):
    log = os.open(f"{folder}/log{rank}", os.O_WRONLY | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)
    faulthandler.enable()  # a crash says where
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks),
                      MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), OMP_NUM_THREADS="1")
    run_cases.torch.set_num_threads(1)
    sys.argv = ["run_cases.py", "--exactly", f"{folder}/results.json", *names]
    run_cases.main()


@functools.cache
def results(ranks):
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        fork = multiprocessing.get_context("fork")
        names = [name for name in cases_of("cpu", ranks) if gate_has(name, ranks)]
        for module, imported in (("hugging_face", "packages"), ("megatron_core", "core")):
            if any(name.startswith(module) for name in names):  # once, not on every rank
                getattr(sys.modules[f"cases.{module}"], imported)()
        processes = [fork.Process(target=rank_of, args=(r, ranks, port, folder, names))
                     for r in range(ranks)]
        for p in processes:
            p.start()
        processes[0].join(LAUNCH_S)
        for p in processes:
            p.join(20)
            if p.is_alive():
                p.kill()
        out = Path(folder) / "results.json"
        logs = "\n".join((Path(folder) / f"log{r}").read_text()[-3000:] for r in range(ranks))
        assert out.exists(), f"exit codes {[p.exitcode for p in processes]}\n{logs}"
        return json.loads(out.read_text())


@pytest.mark.parametrize(
    ("name", "ranks"),
    [(name, n) for n in (2, 3, 4) for name in cases_of("cpu", n) if gate_has(name, n)])
def test_case(name, ranks):
    errors = results(ranks)[name]["errors"]
    texts = [f"rank {r}:\n{text}" for r, text in enumerate(errors) if text]
    assert not texts, "\n".join(texts)


def test_a_name_without_cases_is_no_success():
    alone = dict(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
    done = subprocess.run([sys.executable, str(HERE / "run_cases.py"), "-", "no such case"], check=False,
                          capture_output=True, text=True, timeout=120, env={**os.environ, **alone})
    assert done.returncode != 0 and "nothing was tested" in done.stdout, done.stdout + done.stderr
