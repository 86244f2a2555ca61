// SPDX-License-Identifier: Apache-2.0
// "path=fused,blocks=2": the choices of a plan that a user fixes.
#include "core/parse.h"
#include "tilelace/dtype.h"
#include "tilelace/plan.h"
#include "tilelace/transport_table.h"

namespace tilelace {
namespace {

template <class T>
Words<T> words_of(std::initializer_list<T> values) {
  Words<T> words;
  for (const T v : values) words.emplace_back(name_of(v), v);
  return words;
}

void set_option(PlanOptions& o, std::string_view what, std::string_view key,
                std::string_view value) {
  const auto of = fmt::format("{} {}", what, key);
  const auto number = [&](std::int64_t most) {
    return static_cast<int>(parse_number(of, value, 1, most));
  };
  if (key == "path") {
    o.path = parse_word(of, value, words_of({Path::fused, Path::medium, Path::unfused}));
  } else if (key == "transport") {
    o.transport = parse_word(of, value, words_of_rows(transport_table(), &TransportRow::transport));
  } else if (key == "route") {
    o.route =
        parse_word(of, value, words_of({RouteKind::mesh, RouteKind::ring, RouteKind::two_level}));
  } else if (key == "partials") {
    o.partials = parse_word(of, value, words_of_rows(kDTypes, &DTypeRow::type));
  } else if (key == "straddle") {
    o.straddle = parse_number(of, value, 0, 1) == 1;
  } else if (key == "blocks") {
    o.blocks = number(64);
  } else if (key == "chunk") {
    o.chunk_rows = parse_number(of, value, 1, kMaxRows);
  } else if (key == "tile_m") {
    o.tile_m = number(4096);
  } else if (key == "tile_n") {
    o.tile_n = number(4096);
  } else if (key == "local_ranks") {
    o.local_ranks = number(64);
  } else {
    raise(ErrorKind::usage,
          "{}: got \"{}\", expected path, transport, route, blocks, chunk, tile_m, tile_n, "
          "partials, straddle or local_ranks",
          what, key);
  }
}

}  // namespace

PlanOptions parse_plan_options(const std::string& what, const std::string& text) {
  PlanOptions options;
  for (const auto& [key, value] : split_pairs(what, text)) set_option(options, what, key, value);
  return options;
}

}  // namespace tilelace
