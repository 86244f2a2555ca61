#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A new link comes by a row and a class: adds a toy link to a copy of the tree, counts the files that it
touches, builds the copy for CPU ranks and runs the tests of results over it.

The toy joins every other pair of CPU ranks. It maps nothing: rows go through a small buffer.
usage: toy_link.py [--count] [--into DIR]
  --count     only adds it and counts the files: what the gate does, in a second
  --into DIR  a copy that stays, for builds that begin where the last one ended
"""
from pathlib import Path

from tree_copy import add_to_copy, arguments, build, configure, expect, run, say

ROW = """    LinkRow{LinkKind::toy, "toy buffer",
            [](const RankPair& p) { return p.device == Device::cpu && (p.low + p.high) % 2 == 1; },
            false, true},
    LinkRow{LinkKind::wire"""
WIDTH = "const std::int64_t width = c.width;"
LINK = """// SPDX-License-Identifier: Apache-2.0
// A link that maps nothing: rows go through a buffer of a few bytes.
#pragma once
#include <algorithm>
#include <array>
#include <cstring>

#include "backend/cpu/link.h"
#include "comm/std_atomics.h"
#include "core/check.h"

namespace tilelace::cpu {

class ToyLink final : public Link {
 public:
  using Link::Link;

  comm::WaitStatus copy(const RowsCopy& c, const Bound& /*bound*/) override {
    """ + WIDTH + """
    std::array<std::byte, 96> buffer;
    for (std::int64_t r = 0; r < c.rows; ++r)
      for (std::int64_t at = 0; at < width; at += 96) {
        const auto bytes = static_cast<std::size_t>(std::min<std::int64_t>(96, width - at));
        std::memcpy(buffer.data(), c.from + r * c.from_stride + at, bytes);
        std::memcpy(c.to + r * c.to_stride + at, buffer.data(), bytes);
      }
    return comm::WaitStatus::reached;
  }
  comm::WaitStatus store(std::int64_t bytes, const std::function<void()>& /*store*/,
                         const Bound& /*bound*/) override {
    tilelace::raise(ErrorKind::system, "toy link: got a store of {} bytes, expected copies", bytes);
  }
  void raise(comm::Flag* flag, std::uint32_t epoch) override {
    comm::signal<comm::StdAtomics>(flag, epoch);
  }
  void send_header(comm::Header* word, std::uint32_t epoch, std::uint32_t hash) override {
    comm::signal<comm::StdAtomics>(word, epoch, hash);
  }
};

}  // namespace tilelace::cpu
"""
NEW = {"src/backend/cpu/toy_link.h": LINK}
EDITS = [
    ("link_table.h", r"(enum class LinkKind : std::uint8_t \{[^}]*?) \}", r"\1, toy }"),
    ("link_table.h", r"    LinkRow\{LinkKind::wire", ROW),
    ("cpu/link.cc", r'(?=#include "core/check.h")', '#include "backend/cpu/toy_link.h"\n'),
    ("cpu/link.cc", r"(?=    case comm::LinkKind::peer_memory:)",
     "    case comm::LinkKind::toy: return std::make_unique<ToyLink>(row);\n"),
]
# Other toys than rows ask for, and which test finds them.
WRONG = [("without the last byte of rows", "const std::int64_t width = c.width - 1;"),
         ("rows of zeros", WIDTH + "\n    if (width > 0) return comm::WaitStatus::reached;")]
TESTS = ("conformance_exact_test", "conformance_straggler_test")


def check_command(tree: Path, at: Path) -> None:
    build(at, "tilelace_cli")
    for ranks in (2, 4):
        said = run(at / "bin/tilelace", "run", "--model", tree / "tests/data/model/tiny_llama.json", "--tp",
                   ranks, "--m", 37, "--iterations", 3)
        expect(said, "toy buffer")


def check_all(tree: Path) -> None:
    at = configure(tree, None, "-DTILELACE_TESTS=ON", "-DTILELACE_CONFORMANCE_SHAPES=60",
                   "-DTILELACE_STRAGGLER_CALLS=60")
    for test in TESTS:
        build(at, test)
        say(f"{test}:", run(at / "bin" / test, "--gtest_brief=1", timeout=600).splitlines()[-1])
    check_command(tree, at)
    say("command: says which link ranks have, runs on 2 and 4 ranks")
    link = tree / "src/backend/cpu/toy_link.h"
    for name, wrong in WRONG:
        assert LINK.count(WIDTH) == 1
        link.write_text(LINK.replace(WIDTH, wrong))
        build(at, TESTS[0])
        found = run(at / "bin" / TESTS[0], "--gtest_brief=1", "--gtest_fail_fast", fails=True, timeout=600)
        expect(found, "[  FAILED  ]")
        say(f"{name}:", next(line for line in found.splitlines() if "[  FAILED  ]" in line))


def main() -> None:
    add_to_copy("toy link", arguments(__doc__).parse_args(), EDITS, check_all, NEW)


if __name__ == "__main__":
    main()
