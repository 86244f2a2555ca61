// SPDX-License-Identifier: Apache-2.0
#include "plan/words/plan_words.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include "core/architecture.h"
#include "core/check.h"
#include "plan/base/problem.h"
#include "plan/gemm/architecture_plans.h"
#include "plan/gpu/way_choice.h"
#include "tilelace/op_table.h"
#include "tilelace/transport_table.h"

namespace tilelace::plan {
namespace {

/// Words of a text, between blanks and commas.
class Words {
 public:
  explicit Words(std::string_view text) : text_(text) {
    for (std::size_t at = 0; at < text.size();) {
      at = text.find_first_not_of(" ,", at);
      if (at == std::string_view::npos) break;
      const std::size_t end = std::min(text.find_first_of(" ,", at), text.size());
      words_.push_back(text.substr(at, end - at));
      at = end;
    }
  }
  [[nodiscard]] bool over() const { return at_ == words_.size(); }
  [[nodiscard]] std::string_view peek(std::size_t ahead = 0) const {
    return at_ + ahead < words_.size() ? words_[at_ + ahead] : std::string_view{};
  }
  std::string_view next() {
    const std::string_view word = peek();
    at_ += over() ? 0 : 1;
    return word;
  }
  /// Takes a phrase, '#' for any number.
  bool has(std::string_view phrase) {
    std::int64_t number = 0;
    return take(phrase, number);
  }
  /// The same; the number goes into `to`.
  template <class T>
  bool take(std::string_view phrase, T& to) {
    T number = 0;
    std::size_t at = 0;
    for (const std::string_view word : Words(phrase).words_) {
      const std::string_view here = peek(at++);
      if (word != "#" ? word != here : !is_number(here, number)) return false;
    }
    at_ += at;
    to = number;
    return true;
  }
  /// Takes a phrase that says that something is so.
  template <class T>
  bool set(std::string_view phrase, T& to, T value) {
    if (!has(phrase)) return false;
    to = value;
    return true;
  }
  /// "NAME 4x2".
  bool take_pair(std::string_view name, int& first, int& second) {
    const std::string_view pair = peek() == name ? peek(1) : std::string_view{};
    const std::size_t x = pair.find('x');
    int a = 0, b = 0;
    if (x == std::string_view::npos || !is_number(pair.substr(0, x), a) ||
        !is_number(pair.substr(x + 1), b))
      return false;
    at_ += 2;
    first = a, second = b;
    return true;
  }
  bool take_joins(std::vector<int>& joins) {
    if (!has("joined behind")) return false;
    for (int tiles = 0; is_number(peek(), tiles); next()) joins.push_back(tiles);
    return true;
  }
  [[noreturn]] void refuse(std::string_view expected) const {
    raise(ErrorKind::usage, "plan: \"{}\": got {}, expected {}", text_,
          over() ? "the end" : fmt::format("\"{}\"", peek()), expected);
  }

 private:
  template <class T>
  static bool is_number(std::string_view word, T& number) {
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    return error == std::errc{} && end == word.data() + word.size() && number >= 0;
  }

  std::string_view text_;
  std::vector<std::string_view> words_;
  std::size_t at_ = 0;
};

template <class T>
T one_of(Words& words, std::initializer_list<T> all, std::string_view expected) {
  for (const T value : all)
    if (words.has(name_of(value))) return value;
  words.refuse(expected);
}

/// What a text has said so far.
struct Heard {
  Plan plan;
  GemmPlan gemm;
  bool kernel = false;  ///< whether a kernel was named
  int apart = 1;
  std::vector<int> joins = {};
  int lag = 0;
  bool by_columns = false;
  int shots = 0;
  bool lines = false;
  int cublas = 0;
  int grid = 0;
};

GemmTile tile_of(Op op, std::string_view name, int architecture) {
  const auto tiles = plans_of(architecture).tiles;
  const auto tile =
      std::find_if(tiles.begin(), tiles.end(), [&](const GemmTile& t) { return t.name == name; });
  require(tile != tiles.end(), "{}: tile: got {}, expected a compiled one of {} (docs/plans.md)",
          name_of(op), name, name_of_architecture(architecture));
  return *tile;
}

/// "of NAME": of other than the first one.
int read_architecture(Words& words) {
  if (!words.has("of")) return 0;
  const auto found = architecture_named(words.peek());
  if (!found) words.refuse(names_of_architectures());
  words.next();
  return *found;
}

void read_kernel(Words& words, Heard& h) {
  GemmPlan& g = h.gemm;
  const std::string_view tile = words.next();
  g.architecture = read_architecture(words);
  g.tile = tile_of(h.plan.op, tile, g.architecture);
  g.early_weights = false;
  h.kernel = true;
  h.plan.tile_m = g.tile.worker_tokens();
  h.plan.tile_n = g.tile.worker_columns();
  while (!words.over())
    if (!words.take("workers #", h.plan.workers) && !words.take("split #", g.split_tiles) &&
        !words.take("group #", g.group) && !words.take("in # rounds", g.rounds) &&
        !words.take("# apart", h.apart) && !words.take("lag #", h.lag) &&
        !words.take("shots #", h.shots) && !words.take("cublas #", h.cublas) &&
        !words.take("grid #", h.grid) && !words.take_pair("blocks", g.wide, g.deep) &&
        !words.take_joins(h.joins) && !words.set("lines", h.lines, true) &&
        !words.set("column shards", h.by_columns, true) &&
        !words.set("along n", g.along_cols, true) &&
        !words.set("by neighbours", g.by_neighbours, true) &&
        !words.set("early", g.early_weights, true))
      words.refuse("a word of a kernel's plan (docs/plans.md)");
}

/// "fused mesh store tile 64x256 chunk 1 workers 12 straddle".
void read_public(Words& words, Plan& plan) {
  plan.path = one_of(words, {Path::fused, Path::medium, Path::unfused}, "a path");
  plan.route = one_of(words, {RouteKind::mesh, RouteKind::ring, RouteKind::two_level}, "a route");
  const auto transports = transport_table();
  const auto transport = std::find_if(transports.begin(), transports.end(),
                                      [&](const TransportRow& row) { return words.has(row.name); });
  if (transport == transports.end()) words.refuse("a transport");
  plan.transport = transport->transport;
  while (!words.over()) {
    if (words.take_pair("tile", plan.tile_m, plan.tile_n) ||
        words.take("chunk #", plan.chunk_rows) || words.take("workers #", plan.workers) ||
        words.take("local #", plan.local_ranks) || words.take("blocks #", plan.blocks) ||
        words.set("straddle", plan.straddle, true))
      continue;
    if (words.peek() == "tile") words.refuse("tile ROWSxCOLUMNS");
    if (!words.has("partials")) words.refuse("a word of a plan (docs/plans.md)");
    const auto type = dtype_named(words.peek());
    if (!type) words.refuse("a type");
    words.next();
    plan.partials = *type;
  }
}

void read_gather(Words& words, Heard& h) {
  Plan& plan = h.plan;
  plan.transport = Transport::push;
  while (!words.over())
    if (!words.has("by shard") && !words.set("a product a shard", plan.path, Path::medium) &&
        !words.set("whole", plan.straddle, true) && !words.take("# apart", h.apart) &&
        !(words.take_joins(h.joins) && words.has("tiles")) &&
        !words.set("copy engine pulls", plan.transport, Transport::pull) &&
        !words.has("copy engine") && !words.set("ring", plan.route, RouteKind::ring) &&
        !words.set("sent by the product", plan.transport, Transport::store) &&
        !words.set("NCCL", plan.transport, Transport::nccl) &&
        !words.take("chunks of # rows", plan.chunk_rows))
      words.refuse("the op, or a word of an older plan of ag_gemm (docs/plans.md)");
}

/// The first words of a kernel's plan that sums, and what they say of the public one.
struct SumWords {
  std::string_view words;
  Path path;
  Transport transport;
  int shots;
};
constexpr std::array kSums = {
    SumWords{"remote shards together", Path::fused, Transport::store, 0},
    SumWords{"remote shards apart", Path::fused, Transport::store, 0},
    SumWords{"shards in pairs", Path::fused, Transport::store, 0},
    SumWords{"direct", Path::fused, Transport::store, 0},
    SumWords{"staged", Path::fused, Transport::store, 0},
    SumWords{"pull one shot", Path::fused, Transport::pull, 1},
    SumWords{"pull direct", Path::fused, Transport::pull, 2},
    SumWords{"pull staged", Path::fused, Transport::pull, 2},
    SumWords{"pushed one shot", Path::unfused, Transport::push, 1},
    SumWords{"pushed two shots", Path::unfused, Transport::push, 2},
    SumWords{"one shot", Path::unfused, Transport::pull, 0},
    SumWords{"two shots", Path::unfused, Transport::store, 0},
    SumWords{"copied a product a shard", Path::medium, Transport::push, 0}};

void read_sum(Words& words, Heard& h) {
  Plan& plan = h.plan;
  plan.transport = Transport::store;
  if (words.peek() == "remote" && words.peek(2) == "apart") h.apart = 2;  // set by the ranks
  plan.straddle = words.peek() == "shards" && words.peek(1) == "in";
  const auto* const way = std::find_if(kSums.begin(), kSums.end(),
                                       [&](const SumWords& w) { return words.has(w.words); });
  if (way == kSums.end()) words.refuse("the op, or an older plan's first words (docs/plans.md)");
  plan.path = way->path;
  plan.transport = way->transport;
  h.shots = way->shots;
  while (!words.over())
    if (!words.has("up to # CTAs") && !words.has("# in the end") &&
        !words.has("1 chunks each of up to 512 threads") &&
        !words.take("chunks of # rows", plan.chunk_rows) &&
        !words.take("blocks of # rows", plan.chunk_rows) &&
        !words.set("shards of columns", h.by_columns, true) &&
        !words.take("own tiles # columns behind", h.lag))
      words.refuse(
          "a word of gemm_rs or gemm_ar that an older version had (docs/plans.md lists removed "
          "words)");
}

/// Schedules divide by these numbers, multiply them in 32 bits, and have room for so many blocks of
/// a shard.
void require_counts(const Problem& p, const Heard& h) {
  const GemmPlan& g = h.gemm;
  const auto counted = [&](std::string_view what, std::int64_t number, std::int64_t most) {
    require(number >= 1 && number <= most, "{}: plan: {}: got {}, expected 1 to {}", name_of(p.op),
            what, number, most);
  };
  counted("workers", h.plan.workers, 1 << 16);
  counted("chunk", h.plan.chunk_rows, kMaxExtent);
  counted("group", g.group, 1 << 16);
  counted("rounds", g.rounds, 2);
  counted("blocks", g.wide, 1 << 20);
  counted("blocks", g.deep, 1 << 10);
  counted("apart", h.apart, kMaxRanks);
  require(are_counted(g.split_tiles, p.k), "{}: plan: split: got {} tiles, more than are counted",
          name_of(p.op), g.split_tiles);
}
void require_blocks(const Problem& p, const GemmArWay& way) {
  require(way.lag >= 1, "{}: plan: lag: got {}, expected at least 1", name_of(p.op), way.lag);
  if (way.by_columns) return;
  const int rows = way.gemm.tile.worker_rows();
  const std::int64_t shard = schedule::ceil_div(p.m, p.ranks);
  require(way.block_rows % rows == 0 &&
              schedule::ceil_div(shard, way.block_rows) <= schedule::kMaxShareBlocks,
          "{}: plan: chunk: got {}, expected a multiple of the tile's {} rows, and at most {} "
          "chunks in a shard of {} rows",
          name_of(p.op), way.block_rows, rows, schedule::kMaxShareBlocks, shard);
}

/// The way that was said, of a kernel that was named.
KernelWay way_of(const Problem& p, const Heard& h) {
  const Plan& w = h.plan;
  if (row_of(p.op).gathers)
    return AgGemmWay{h.gemm,  w.straddle, w.transport, w.chunk_rows, h.apart,
                     h.joins, 0,          w.path,      w.route,      h.lines};
  require(w.route == RouteKind::mesh, "{}: plan: route on GPUs: got {}, expected mesh",
          name_of(p.op), name_of(w.route));
  if (row_of(w.transport).needs_multicast()) return KeptPartialsWay{h.gemm, 2, true};
  const bool fused = w.path == Path::fused;
  if (row_of(p.op).shares && fused) {
    if (row_of(w.transport).pulls) return KeptPartialsWay{h.gemm, h.shots};
    const GemmArWay way{h.gemm, w.chunk_rows, h.lag, 0, h.by_columns};
    require_blocks(p, way);
    return way;
  }
  if (fused) return GemmRsWay{h.gemm, h.apart > 1 ? p.ranks - 1 : 1, 0, w.straddle};
  if (copies_partials(w.op, w.path)) return CopiedPartialsWay{h.gemm, w.chunk_rows};
  return UnfusedSumWay{h.gemm,  w.transport, w.chunk_rows, 0, std::max(1, h.shots),
                       h.lines, h.cublas};
}

}  // namespace

std::string_view tile_in_words(std::string_view plan) {
  const std::size_t at = plan.find("; ");
  if (at == std::string_view::npos) return {};
  plan.remove_prefix(at + 2);
  return plan.substr(0, plan.find(' '));
}

Plan plan_of_words(const Problem& p, std::string_view text) {
  if (const std::size_t at = text.find(": "); at != std::string_view::npos)
    text.remove_prefix(at + 2);
  text = text.substr(0, text.find(" ("));
  const std::size_t border = std::min(text.find("; "), text.size());
  Words way(text.substr(0, border));
  Heard h;
  h.plan.op = p.op;
  h.plan.partials = p.dtype;
  h.plan.workers = 1;
  const bool is_public = way.has(name_of(p.op));
  if (border < text.size()) {
    Words kernel(text.substr(border + 2));
    read_kernel(kernel, h);
    h.plan.chunk_rows = h.by_columns ? p.m : h.plan.tile_m;
  }
  if (is_public)
    read_public(way, h.plan);
  else
    row_of(p.op).gathers ? read_gather(way, h) : read_sum(way, h);
  if (!h.kernel) return h.plan;
  h.gemm.workers = h.plan.workers;
  require_counts(p, h);
  const int grid = h.grid > 0 ? h.grid : h.plan.workers * h.gemm.tile.cluster();
  return plan_of(p, way_of(p, h), grid);
}

}  // namespace tilelace::plan
