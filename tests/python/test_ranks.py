# SPDX-License-Identifier: Apache-2.0
"""The cases of CPU ranks: one launch for each number of them, forked from here, so that torch is
imported once."""
import functools
import importlib
import json
import os
import sys
import tempfile
from pathlib import Path

import forked
import pytest
from cases.world import MODULES, cases_of

RUN_CASES = Path(__file__).resolve().parent / "run_cases.py"

LAUNCH_S = 600
NIGHT = "TILELACE_TEST_TIMES" in os.environ  # tools/night.sh
PLANS = "compiled_plans.plans_are_fused"
SYMBOLS = "compiled_plans.sizes_may_be_symbols"  # compiled_sizes, of the gate, has calls of such sizes


# Graphs of whole models, which take as long to compile as all else of their files.
NIGHTS = ("hugging_face.a_model_is_one_graph", "layers_more.they_are_whole_graphs",
          "styles.styles_are_whole_graphs")
# On more than two ranks; two have them in the gate.
NIGHTS_OF_MORE = ("hugging_face.gradients_are_one_ranks", "hugging_face.long_prompts_are_split",
                  "hugging_face.text_is_one_ranks", "kinds.kinds_of_layers", "styles.")


def gate_has(name, ranks):
    """Compiled graphs on three and four ranks are the night's: two ranks have all of them. So are models,
    kinds of layers and styles on more than two, gradients of four, which two and three have, and the trained
    plans of a bias and of sequence parallelism alone: those of neither and of both stay."""
    if NIGHT:
        return True
    if name in NIGHTS or (ranks == 4 and name.startswith("grads.")) or (ranks > 2 and name.startswith(NIGHTS_OF_MORE)):
        return False
    if not (name.startswith("compiled") or name.endswith(("whole_graphs", "compiled_graphs_are_whole"))):
        return True
    return ranks == 2 and name not in (f"{PLANS}[True,False]", f"{PLANS}[False,True]", SYMBOLS)


FAILED_LAUNCHES = set()  # by ranks; said once each

for _module in MODULES:
    importlib.import_module(f"cases.{_module}")


@functools.cache
def results(ranks):
    """What came of each case; of a launch that failed as a whole, what it said."""
    names = [name for name in cases_of("cpu", ranks) if gate_has(name, ranks)]
    for module, imported in (("hugging_face", "packages"), ("megatron_core", "core")):
        if any(name.startswith(module) for name in names):  # once, not on every rank
            getattr(sys.modules[f"cases.{module}"], imported)()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "results.json"
        launch = forked.Programs(RUN_CASES, "--exactly", out, *names, ranks=ranks)
        codes, outputs, errors = launch.finish(LAUNCH_S, after_first=20)
        if any(codes):
            # Where a rank crashed, all its stacks, but not the line of all modules behind them.
            said = [text.split("\nExtension modules:")[0] for text in (*outputs, *errors)]
            return "\n".join([f"exit codes {codes}", *(text[-20000:] for text in said)])
        return json.loads(out.read_text())


@pytest.mark.parametrize(
    ("name", "ranks"),
    [(name, n) for n in (2, 3, 4) for name in cases_of("cpu", n) if gate_has(name, n)])
def test_case(name, ranks):
    found = results(ranks)
    if isinstance(found, str):
        first = ranks not in FAILED_LAUNCHES
        FAILED_LAUNCHES.add(ranks)
        pytest.fail(found if first else f"the launch of {ranks} ranks failed: its first case says how",
                    pytrace=False)
    errors = found[name]["errors"]
    texts = [f"rank {r}:\n{text}" for r, text in enumerate(errors) if text]
    assert not texts, "\n".join(texts)


def test_a_name_without_cases_is_no_success():
    (code,), (said,), _ = forked.Programs(RUN_CASES, "-", "no such case", ranks=1).finish(120)
    assert code == 2 and "nothing was tested" in said, said
