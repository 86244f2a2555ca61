# SPDX-License-Identifier: Apache-2.0
"""Programs that mostly wait begin before the first test."""
import os
import sys

# Ranks that compile fill the cores: no compiling processes beside them, which import torch, too.
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")


def pytest_collection_finish(session):
    joins = sys.modules.get("test_joins")
    if joins is not None and any(item.module is joins for item in session.items):
        joins.programs()
