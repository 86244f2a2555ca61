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
  /// Takes a phrase, '#' for any number, which comes back; -1: it is not there.
  std::int64_t take(std::string_view phrase) {
    std::int64_t number = 0;
    std::size_t at = 0;
    for (const std::string_view word : Words(phrase).words_) {
      const std::string_view here = peek(at++);
      if (word != "#" ? word != here : !is_number(here, number)) return -1;
    }
    at_ += at;
    return number;
  }
  bool has(std::string_view phrase) { return take(phrase) >= 0; }
  [[nodiscard]] static bool is_number(std::string_view word, std::int64_t& number) {
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    return error == std::errc{} && end == word.data() + word.size() && number >= 0;
  }
  [[noreturn]] void refuse(std::string_view expected) const {
    raise(ErrorKind::usage, "--plan: \"{}\": got \"{}\", expected {}", text_,
          over() ? "the end" : peek(), expected);
  }

 private:
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

void set_number(std::int64_t found, int& to, bool& taken) {
  if (found < 0) return;
  to = static_cast<int>(found);
  taken = true;
}

void read_kernel(Words& words, Plan& plan) {
  KernelPlan& k = plan.kernel;
  k.tile = words.next();
  k.early_weights = false;
  const GemmTile tile = gemm_plan_of(plan).tile;
  plan.tile_m = tile.worker_tokens();
  plan.tile_n = tile.worker_columns();
  while (!words.over()) {
    bool taken = false;
    set_number(words.take("workers #"), plan.workers, taken);
    set_number(words.take("split #"), k.split_tiles, taken);
    set_number(words.take("group #"), k.group, taken);
    set_number(words.take("in # rounds"), k.rounds, taken);
    set_number(words.take("# apart"), k.apart, taken);
    set_number(words.take("lag #"), k.lag, taken);
    set_number(words.take("shots #"), k.shots, taken);
    set_number(words.take("grid #"), k.grid, taken);
    std::int64_t wide = 0, deep = 0;
    if (const std::string_view size = words.peek(1); words.peek() == "blocks" && !size.empty()) {
      const std::size_t x = std::min(size.find('x'), size.size() - 1);
      if (Words::is_number(size.substr(0, x), wide) && Words::is_number(size.substr(x + 1), deep)) {
        k.wide = static_cast<int>(wide), k.deep = static_cast<int>(deep);
        words.next(), words.next();
        taken = true;
      }
    }
    if (words.has("joined behind")) {
      taken = true;
      for (std::int64_t tiles = 0; Words::is_number(words.peek(), tiles); words.next())
        k.joins.push_back(static_cast<int>(tiles));
    }
    if (words.has("column shards")) taken = k.by_columns = true;
    if (words.has("along n")) taken = k.along_cols = true;
    if (words.has("by neighbours")) taken = k.by_neighbours = true;
    if (words.has("early")) taken = k.early_weights = true;
    if (!taken) words.refuse("a word of a kernel's plan (docs/plans.md)");
  }
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
    if (words.has("tile")) {
      const std::string_view size = words.next();
      const std::size_t x = std::min(size.find('x'), size.size());
      std::int64_t m = 0, n = 0;
      if (!Words::is_number(size.substr(0, x), m) ||
          !Words::is_number(size.substr(std::min(x + 1, size.size())), n))
        words.refuse("rows x columns of a tile");
      plan.tile_m = static_cast<int>(m), plan.tile_n = static_cast<int>(n);
      continue;
    }
    bool taken = false;
    if (const std::int64_t rows = words.take("chunk #"); rows >= 0)
      plan.chunk_rows = rows, taken = true;
    set_number(words.take("workers #"), plan.workers, taken);
    set_number(words.take("local #"), plan.local_ranks, taken);
    set_number(words.take("blocks #"), plan.blocks, taken);
    if (words.has("straddle")) taken = plan.straddle = true;
    if (words.has("partials")) {
      plan.partials = one_of(words, {DType::bf16, DType::fp16, DType::fp32}, "a type");
      taken = true;
    }
    if (!taken) words.refuse("a word of a plan (docs/plans.md)");
  }
}

void read_gather(Words& words, Plan& plan) {
  plan.transport = Transport::push;
  while (!words.over()) {
    bool taken = words.has("by shard");
    if (words.has("a product a shard")) taken = true, plan.path = Path::medium;
    if (words.has("whole")) taken = plan.straddle = true;
    set_number(words.take("# apart"), plan.kernel.apart, taken);
    if (words.has("joined behind")) {
      for (std::int64_t tiles = 0; Words::is_number(words.peek(), tiles); words.next())
        plan.kernel.joins.push_back(static_cast<int>(tiles));
      taken = words.has("tiles");
    }
    if (words.has("copy engine pulls")) taken = true, plan.transport = Transport::pull;
    if (words.has("copy engine")) taken = true;
    if (words.has("ring")) taken = true, plan.route = RouteKind::ring;
    if (words.has("sent by the product")) taken = true, plan.transport = Transport::store;
    if (words.has("NCCL")) taken = true, plan.transport = Transport::nccl;
    if (const auto rows = words.take("chunks of # rows"); rows >= 0)
      plan.chunk_rows = rows, taken = true;
    if (!taken) words.refuse("how rows of ag_gemm travel (docs/plans.md)");
  }
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
  while (!words.over()) {
    bool taken = words.has("up to # CTAs") || words.has("# in the end") ||
                 words.has("1 chunks each of up to 512 threads");
    if (const auto rows = words.take("chunks of # rows"); rows >= 0)
      plan.chunk_rows = rows, taken = true;
    if (const auto rows = words.take("blocks of # rows"); rows >= 0)
      plan.chunk_rows = rows, taken = true;
    if (words.has("shards of columns")) taken = plan.kernel.by_columns = true;
    set_number(words.take("own tiles # columns behind"), plan.kernel.lag, taken);
    if (!taken) words.refuse("a word of a sum's plan that is still there (docs/plans.md)");
  }
}

}  // namespace

bool is_printed_plan(std::string_view text) { return text.find('=') == std::string_view::npos; }

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
