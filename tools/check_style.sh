#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Layout (clang-format 14), licence lines and file lengths of every source file.
# usage: tools/check_style.sh [--fix]     --fix lays the sources out instead of complaining
set -euo pipefail
cd "$(dirname "$0")/.."
format=$(command -v clang-format-14 || command -v clang-format)
version=$("$format" --version | sed -E 's/.*version ([0-9]+).*/\1/')
[ "$version" = 14 ] || echo "style: clang-format, got version $version, expected 14 (Debian 12): layouts may differ"

ours() { git ls-files --cached --others --exclude-standard -- "$@" | while read -r f; do [ -f "$f" ] && echo "$f"; done; }
sources=$(ours '*.h' '*.cc' '*.c' '*.cu' '*.cuh')
scripts=$(ours '*.py' '*.sh' quickstart test .ci/run)
failed=0

if [ "${1:-}" = --fix ]; then
  xargs "$format" -i <<<"$sources"
else
  xargs "$format" --dry-run -Werror <<<"$sources" || failed=1
fi

for file in $sources $scripts; do
  if ! head -3 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0'; then
    echo "$file:1: no licence line, expected 'SPDX-License-Identifier: Apache-2.0' in the first three lines"
    failed=1
  fi
  lines=$(wc -l <"$file")
  if [ "$lines" -gt 500 ]; then
    echo "$file:501: $lines lines, expected at most 500"
    failed=1
  elif [ "$lines" -gt 400 ]; then
    echo "$file: $lines lines: near the limit of 500"
  fi
done
echo "style: $(wc -w <<<"$sources $scripts") files, $([ $failed = 0 ] && echo clean || echo findings above)"
exit $failed
