# SPDX-License-Identifier: Apache-2.0
"""`import tilelace` alone is enough for all that the documentation writes behind it, and says nothing."""
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def documented():
    """Names as README and docs write them: tilelace.nn.RMSNorm, tilelace.compat.symm_mem ..."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    names = {name for page in pages
             for name in re.findall(r"(?<![\w./:-])tilelace((?:\.[A-Za-z]\w*)+)\b(?!-)", page.read_text())}
    return sorted(names - {".tuning"})  # a schema of files


PROGRAM = """
import operator, sys, warnings
import tilelace
print([m for m in ("inductor", "megatron", "tensor_parallel", "transformers") if "tilelace." + m in sys.modules],
      "nn" in dir(tilelace), flush=True)
try:
    tilelace.no_such
except AttributeError as error:
    print(error, flush=True)
print("imported", file=sys.stderr, flush=True)
warnings.simplefilter("default")  # modules that are named now load other packages
for name in sys.argv[1:]:
    operator.attrgetter(name[1:])(tilelace)
print("all names")
"""


def test_import_is_silent_loads_no_other_module_and_has_all_names():
    names = documented()
    assert {".nn", ".inductor.enable", ".compat.symm_mem"} <= set(names)
    done = subprocess.run([sys.executable, "-W", "error", "-c", PROGRAM, *names], check=False, capture_output=True,
                          text=True, timeout=300)
    assert (done.returncode, done.stdout.splitlines()) == (
        0, ["[] True", "module 'tilelace' has no attribute 'no_such'", "all names"]), done.stderr
    assert done.stderr.startswith("imported\n"), done.stderr
