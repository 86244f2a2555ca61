#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: tools/check_tidy.sh [BUILD_DIR]: see check_tidy.py
exec python3 "$(dirname "$0")/check_tidy.py" "$@"
