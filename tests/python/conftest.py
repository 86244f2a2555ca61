# SPDX-License-Identifier: Apache-2.0
"""Programs that mostly wait begin before the first test."""
import sys


def pytest_collection_finish(session):
    joins = sys.modules.get("test_joins")
    if joins is not None and any(item.module is joins for item in session.items):
        joins.programs()
