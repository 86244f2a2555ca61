# SPDX-License-Identifier: Apache-2.0
"""The cases of joins.py and a few histories, on CPU ranks, side by side, from the session's beginning
(conftest.py): most of it is waiting."""
import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from joins import CASES

HALVES = (list(CASES)[::2], list(CASES)[1::2])
HISTORIES = ("histories.py", "--ranks", "3", "--histories", "5", "--seed", "5")


@functools.cache
def programs():
    return [
        subprocess.Popen([sys.executable, str(HERE / name), *arguments], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
        for name, *arguments in (*(("joins.py", *half) for half in HALVES), HISTORIES)]


@functools.cache
def outputs():
    return [(*p.communicate(timeout=300), p.returncode) for p in programs()]


@pytest.mark.parametrize("name", CASES)
def test_case(name):
    results, errors, code = outputs()[name in HALVES[1]]
    assert results, f"exit code {code}\n{errors}"
    text = json.loads(results)[name]
    assert not text, text


def test_random_histories():
    results, errors, code = outputs()[2]
    assert code == 0 and "5 histories on 3 cpu ranks, seed 5: all right" in results, results + errors
