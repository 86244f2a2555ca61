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
  xargs -P "$(nproc)" -n 100 "$format" -i <<<"$sources"
else
  xargs -P "$(nproc)" -n 100 "$format" --dry-run -Werror <<<"$sources" || failed=1
fi

# shellcheck disable=SC2086  # a word is a file
awk 'FNR <= 3 && /SPDX-License-Identifier: Apache-2.0/ { licensed[FILENAME] = 1 }
  { lines[FILENAME] = FNR }
  END {
    for (i = 1; i < ARGC; ++i) {
      file = ARGV[i]
      if (!licensed[file]) {
        print file ":1: no licence line, expected \047SPDX-License-Identifier: Apache-2.0\047 in the first three lines"
        failed = 1
      }
      if (lines[file] > 500) {
        print file ":501: " lines[file] " lines, expected at most 500"
        failed = 1
      } else if (lines[file] > 400) print file ": " lines[file] " lines: near the limit of 500"
    }
    exit failed
  }' $sources $scripts || failed=1
echo "style: $(wc -w <<<"$sources $scripts") files, $([ $failed = 0 ] && echo clean || echo findings above)"
exit $failed
