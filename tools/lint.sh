#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Mistakes in Python and misspelt words, as pyproject.toml sets the tools.
# usage: tools/lint.sh [ruff] [spelling] [types]     without words: all three
#   ruff      mistakes and the order of imports in all Python files
#   spelling  codespell over every text
#   types     mypy over the package; reads torch's types in .cache/python
set -uo pipefail
cd "$(dirname "$0")/.."
usage() { sed -n '4,7s/^# //p' "$0"; exit 2; }
tools=.cache/lint/bin
need() {  # need PROGRAM NAME: NAME as tools/install_dependencies.sh takes it
  [ -x "$1" ] || { echo "lint: got no $1, run tools/install_dependencies.sh $2"; exit 2; }
}
need $tools/ruff lint

failed=0
[ $# -gt 0 ] || set -- ruff spelling types
for check in "$@"; do
  case "$check" in
    ruff) $tools/ruff check --quiet . || failed=1 ;;
    spelling)
      git ls-files -z --cached --others --exclude-standard | xargs -0 $tools/codespell || failed=1
      ;;
    types)
      need .cache/python/bin/python python
      $tools/mypy --no-error-summary || failed=1
      ;;
    *) usage ;;
  esac
done
[ $failed = 0 ] && echo "lint: clean"
exit $failed
