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


def run(*arguments):
    return subprocess.run([sys.executable, *arguments], check=False, capture_output=True, text=True,
                          timeout=300)


def test_names_in_the_documentation_need_no_import_of_their_module():
    names = documented()
    assert {".nn", ".inductor.enable", ".compat.symm_mem"} <= set(names)
    program = "import operator, tilelace\n" + "".join(
        f"operator.attrgetter('{name[1:]}')(tilelace)\n" for name in names)
    done = run("-c", program)
    assert done.returncode == 0, done.stderr


def test_import_is_silent_and_loads_no_module_that_was_not_named():
    done = run("-W", "error", "-c", "import sys, tilelace\n"
               "print([m for m in ('inductor', 'megatron', 'tensor_parallel', 'transformers')"
               " if 'tilelace.' + m in sys.modules], 'nn' in dir(tilelace))\n"
               "try:\n    tilelace.no_such\nexcept AttributeError as error:\n    print(error)\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "[] True\nmodule 'tilelace' has no attribute 'no_such'\n"
