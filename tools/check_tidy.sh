#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# clang-tidy over src/ and cli/ (and the headers they include), two files at a time.
# usage: tools/check_tidy.sh [BUILD_DIR]     BUILD_DIR: a configured one, default build/cpu
# A file that was clean is not looked at again until it, a header or .clang-tidy changes.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(realpath "${1:-build/cpu}")
[ -f "$build/compile_commands.json" ] || {
  echo "tidy: compile_commands.json, got none in $build, expected a configured build (cmake --preset cpu)"
  exit 2
}
tidy=$(command -v clang-tidy-14 || command -v clang-tidy)

stamps=.cache/tidy
mkdir -p "$stamps"
common=$({ cat .clang-tidy "$0"; find include src cli -name '*.h' -print0 | sort -z | xargs -0 cat; } | sha256sum)
export tidy build stamps common

check_one() {
  local key stamp
  key=$({ echo "$common $1"; cat "$1"; } | sha256sum | cut -c1-32)
  stamp=$stamps/$key
  [ -f "$stamp" ] && return 0
  # CLI11's own bodies cost this check half of a file's time (6 s); our files with it are few.
  local left_out=()
  grep -qE '"(commands|session)\.h"|<CLI/' "$1" && left_out=(--checks=-performance-unnecessary-value-param)
  if "$tidy" -p "$build" --quiet "${left_out[@]}" "$1" 2>"$stamp.$$"; then
    rm -f "$stamp.$$"
    touch "$stamp"
  else
    grep -v 'warnings\? generated\|Suppressed\|Use -header-filter\|treated as error' "$stamp.$$" >&2 || true
    rm -f "$stamp.$$"
    return 1
  fi
}
export -f check_one

start=$SECONDS
# Only files that this build compiles: the database does not know the others.
files=$(sed -nE 's/^ *"file": "(.*)",?$/\1/p' "$build/compile_commands.json" | sort -u |
        sed -nE "s#^$PWD/((src|cli)/.*\.cc)\$#\1#p")
failed=0
xargs -P "${TIDY_JOBS:-2}" -I{} bash -c 'check_one {}' <<<"$files" || failed=1
echo "tidy: $(wc -l <<<"$files") files in $((SECONDS - start)) s, $([ $failed = 0 ] && echo clean || echo findings above)"
exit $failed
