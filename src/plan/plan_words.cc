// SPDX-License-Identifier: Apache-2.0
#include "plan/plan_words.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include "core/check.h"
#include "plan/cuda_parts.h"

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
    raise(ErrorKind::usage, "--plan: \"{}\": got \"{}\", expected {}", text_,
          over() ? "the end" : peek(), expected);
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

void read_kernel(Words& words, Plan& plan) {
  KernelPlan& k = plan.kernel;
  k.tile = words.next();
  k.early_weights = false;
  const GemmTile tile = gemm_plan_of(plan).tile;
  plan.tile_m = tile.worker_tokens();
  plan.tile_n = tile.worker_columns();
  while (!words.over())
    if (!words.take("workers #", plan.workers) && !words.take("split #", k.split_tiles) &&
        !words.take("group #", k.group) && !words.take("in # rounds", k.rounds) &&
        !words.take("# apart", k.apart) && !words.take("lag #", k.lag) &&
        !words.take("shots #", k.shots) && !words.take("grid #", k.grid) &&
        !words.take_pair("blocks", k.wide, k.deep) && !words.take_joins(k.joins) &&
        !words.set("column shards", k.by_columns, true) &&
        !words.set("along n", k.along_cols, true) &&
        !words.set("by neighbours", k.by_neighbours, true) &&
        !words.set("early", k.early_weights, true))
      words.refuse("a word of a kernel's plan (docs/plans.md)");
  if (k.grid == 0) k.grid = plan.workers * tile.cluster();
}

/// "fused mesh store tile 64x256 chunk 1 workers 12 straddle".
void read_public(Words& words, Plan& plan) {
  plan.path = one_of(words, {Path::fused, Path::medium, Path::unfused}, "a path");
  plan.route = one_of(words, {RouteKind::mesh, RouteKind::ring, RouteKind::two_level}, "a route");
  plan.transport = one_of(words,
                          {Transport::push, Transport::pull, Transport::store, Transport::nccl,
                           Transport::add, Transport::multimem},
                          "a transport");
  while (!words.over()) {
    if (words.take_pair("tile", plan.tile_m, plan.tile_n) ||
        words.take("chunk #", plan.chunk_rows) || words.take("workers #", plan.workers) ||
        words.take("local #", plan.local_ranks) || words.take("blocks #", plan.blocks) ||
        words.set("straddle", plan.straddle, true))
      continue;
    if (words.peek() == "tile") words.refuse("tile ROWSxCOLUMNS");
    if (!words.has("partials")) words.refuse("a word of a plan (docs/plans.md)");
    plan.partials = one_of(words, {DType::bf16, DType::fp16, DType::fp32}, "a type");
  }
}

void read_gather(Words& words, Plan& plan) {
  plan.transport = Transport::push;
  while (!words.over())
    if (!words.has("by shard") && !words.set("a product a shard", plan.path, Path::medium) &&
        !words.set("whole", plan.straddle, true) && !words.take("# apart", plan.kernel.apart) &&
        !(words.take_joins(plan.kernel.joins) && words.has("tiles")) &&
        !words.set("copy engine pulls", plan.transport, Transport::pull) &&
        !words.has("copy engine") && !words.set("ring", plan.route, RouteKind::ring) &&
        !words.set("sent by the product", plan.transport, Transport::store) &&
        !words.set("NCCL", plan.transport, Transport::nccl) &&
        !words.take("chunks of # rows", plan.chunk_rows))
      words.refuse("how rows of ag_gemm travel (docs/plans.md)");
}

/// The first words of a kernel's plan that sums, and what they say of the public one.
struct Way {
  std::string_view words;
  Path path;
  Transport transport;
  int shots;
};
constexpr std::array kWays = {Way{"remote shards together", Path::fused, Transport::store, 0},
                              Way{"remote shards apart", Path::fused, Transport::store, 0},
                              Way{"shards in pairs", Path::fused, Transport::store, 0},
                              Way{"direct", Path::fused, Transport::store, 0},
                              Way{"staged", Path::fused, Transport::store, 0},
                              Way{"pull one shot", Path::fused, Transport::pull, 1},
                              Way{"pull direct", Path::fused, Transport::pull, 2},
                              Way{"pull staged", Path::fused, Transport::pull, 2},
                              Way{"pushed one shot", Path::unfused, Transport::push, 1},
                              Way{"pushed two shots", Path::unfused, Transport::push, 2},
                              Way{"one shot", Path::unfused, Transport::pull, 0},
                              Way{"two shots", Path::unfused, Transport::store, 0},
                              Way{"copied a product a shard", Path::medium, Transport::push, 0},
                              Way{"added", Path::unfused, Transport::add, 0}};

void read_sum(Words& words, Plan& plan) {
  plan.transport = Transport::store;
  const bool apart = words.peek() == "remote" && words.peek(2) == "apart";
  plan.straddle = words.peek() == "shards" && words.peek(1) == "in";
  const auto* const way =
      std::find_if(kWays.begin(), kWays.end(), [&](const Way& w) { return words.has(w.words); });
  if (way != kWays.end()) {
    plan.path = way->path;
    plan.transport = way->transport;
    plan.kernel.shots = way->shots;
  } else if (words.has("ring")) {
    plan.path = Path::unfused;
    plan.route = RouteKind::ring;
  } else {
    words.refuse("a way of sums (docs/plans.md)");
  }
  if (apart) plan.kernel.apart = 2;  // set by the number of ranks
  while (!words.over())
    if (!words.has("up to # CTAs") && !words.has("# in the end") &&
        !words.has("1 chunks each of up to 512 threads") &&
        !words.take("chunks of # rows", plan.chunk_rows) &&
        !words.take("blocks of # rows", plan.chunk_rows) &&
        !words.set("shards of columns", plan.kernel.by_columns, true) &&
        !words.take("own tiles # columns behind", plan.kernel.lag))
      words.refuse("a word of a sum's plan that is still there (docs/plans.md)");
}

}  // namespace

Plan plan_of_words(const Problem& p, std::string_view text) {
  if (const std::size_t at = text.find(": "); at != std::string_view::npos)
    text.remove_prefix(at + 2);
  text = text.substr(0, text.find(" ("));
  const std::size_t border = std::min(text.find("; "), text.size());
  Words way(text.substr(0, border));
  Plan plan;
  plan.op = p.op;
  plan.partials = p.dtype;
  plan.workers = 1;
  const bool is_public = way.has(name_of(p.op));
  if (border < text.size()) {
    Words kernel(text.substr(border + 2));
    read_kernel(kernel, plan);
    plan.chunk_rows = plan.kernel.by_columns ? p.m : plan.tile_m;
  }
  if (is_public)
    read_public(way, plan);
  else
    p.op == Op::ag_gemm ? read_gather(way, plan) : read_sum(way, plan);
  if (p.op == Op::gemm_rs && plan.kernel.apart > 1) plan.kernel.apart = p.ranks - 1;
  return plan;
}

}  // namespace tilelace::plan
