// SPDX-License-Identifier: Apache-2.0
#include "plan/words/agreement.h"

#include <array>
#include <concepts>
#include <string_view>
#include <type_traits>

#include "plan/gpu/kernel_choice.h"

namespace tilelace::plan {
namespace {

/// Gives what is visited to a sink, in words of 64 bits.
template <class Sink>
class Visitor {
 public:
  explicit Visitor(Sink& sink) : sink_(sink) {}

  template <class T>
  requires std::integral<T> || std::is_enum_v<T>
  void operator()(T value) { sink_.put(static_cast<std::uint64_t>(value)); }
  void operator()(std::string_view text) {
    (*this)(text.size());
    for (std::size_t at = 0; at < text.size(); at += 8) {
      std::uint64_t word = 0;
      for (const char c : text.substr(at, 8)) word = word << 8U | static_cast<unsigned char>(c);
      sink_.put(word);
    }
  }
  void operator()(const std::vector<std::int64_t>& list) {
    (*this)(list.size());
    for (const std::int64_t value : list) (*this)(value);
  }

 private:
  Sink& sink_;
};

template <class Visit>
void each_of(const Problem& p, Visit visit) {
  const auto& [op, ranks, m, n, k, dtype, bias, activation, gathered, rows, residual] = p;
  visit(op), visit(ranks), visit(m), visit(n), visit(k), visit(dtype), visit(bias);
  visit(activation), visit(gathered), visit(rows), visit(residual);
}

// Of each way, every choice: a field that is added is told by the compiler.
template <class Visit>
void each_of(const GemmPlan& p, Visit visit) {
  const auto& [tile, workers, split, rounds, group, along_cols, wide, deep, neighbours, early,
               predicted_us, share, architecture] = p;
  static_cast<void>(predicted_us), static_cast<void>(share);
  visit(tile.name), visit(workers), visit(split), visit(rounds), visit(group), visit(along_cols);
  visit(wide), visit(deep), visit(neighbours), visit(early), visit(architecture);
}
template <class Visit>
void each_of(const AgGemmWay& p, Visit visit) {
  const auto& [gemm, whole, transport, chunk_rows, apart, joins, predicted_us, path, route, lines] =
      p;
  static_cast<void>(predicted_us);
  each_of(gemm, visit);
  visit(whole), visit(transport), visit(chunk_rows), visit(apart), visit(path), visit(route);
  visit(lines), visit(joins.size());
  for (const int tiles : joins) visit(tiles);
}
template <class Visit>
void each_of(const GemmRsWay& p, Visit visit) {
  const auto& [gemm, apart, predicted_us, pairs] = p;
  static_cast<void>(predicted_us);
  each_of(gemm, visit);
  visit(apart), visit(pairs);
}
template <class Visit>
void each_of(const GemmArWay& p, Visit visit) {
  const auto& [gemm, block_rows, lag, predicted_us, by_columns] = p;
  static_cast<void>(predicted_us);
  each_of(gemm, visit);
  visit(block_rows), visit(lag), visit(by_columns);
}
template <class Visit>
void each_of(const KeptPartialsWay& p, Visit visit) {
  const auto& [gemm, shots, by_switch, predicted_us] = p;
  static_cast<void>(predicted_us);
  each_of(gemm, visit);
  visit(shots), visit(by_switch);
}
template <class Visit>
void each_of(const UnfusedSumWay& p, Visit visit) {
  const auto& [gemm, transport, chunk_rows, predicted_us, shots, lines, cublas] = p;
  static_cast<void>(predicted_us);
  each_of(gemm, visit);
  visit(transport), visit(chunk_rows), visit(shots), visit(lines), visit(cublas);
}
template <class Visit>
void each_of(const CopiedPartialsWay& p, Visit visit) {
  const auto& [gemm, chunk_rows, predicted_us] = p;
  static_cast<void>(predicted_us);
  each_of(gemm, visit);
  visit(chunk_rows);
}

template <class Visit>
void each_of(const Plan& p, Visit visit) {
  visit(p.op), visit(p.path), visit(p.route), visit(p.local_ranks), visit(p.transport);
  visit(p.tile_m), visit(p.tile_n), visit(p.chunk_rows), visit(p.blocks), visit(p.workers);
  visit(p.straddle), visit(p.partials);
  if (p.kernel == nullptr) return visit(std::variant_npos);
  visit(p.kernel->way.index());
  std::visit([&](const auto& way) { each_of(way, visit); }, p.kernel->way);
}

struct Bytes {
  std::string text;
  void put(std::uint64_t word) {
    std::array<char, 8> bytes;
    for (char& byte : bytes) {
      byte = static_cast<char>(word);
      word >>= 8U;
    }
    text.append(bytes.data(), bytes.size());
  }
};

/// Every word is mixed into all bits (constants of MurmurHash3's finalizer). Four chains in turn: a
/// call does not wait for one mix to end before the next begins.
struct Hash {
  static constexpr std::size_t kLanes = 4;
  std::array<std::uint64_t, kLanes> lanes{};
  std::size_t words = 0;

  static constexpr std::uint64_t mixed(std::uint64_t value, std::uint64_t word) {
    value = (value + 0x9e3779b97f4a7c15ULL) ^ word;
    value = (value ^ value >> 33U) * 0xff51afd7ed558ccdULL;
    value = (value ^ value >> 33U) * 0xc4ceb9fe1a85ec53ULL;
    return value ^ value >> 33U;
  }
  void put(std::uint64_t word) {
    std::uint64_t& lane = lanes[words++ % kLanes];
    lane = mixed(lane, word);
  }
  [[nodiscard]] std::uint64_t value() const {
    std::uint64_t all = words;
    for (const std::uint64_t lane : lanes) all = mixed(all, lane);
    return all;
  }
};

template <class Sink>
Sink of_call(const Problem& problem, const Plan& plan, const CallKind& kind) {
  Sink sink;
  each_of(problem, Visitor<Sink>(sink));
  each_of(plan, Visitor<Sink>(sink));
  sink.put(kind.collective ? 1 : 0);
  sink.put(kind.out);
  return sink;
}

}  // namespace

std::string call_bytes(const Problem& problem, const Plan& plan, const CallKind& kind) {
  return of_call<Bytes>(problem, plan, kind).text;
}

std::string choice_bytes(const Plan& plan) {
  Bytes bytes;
  each_of(plan, Visitor<Bytes>(bytes));
  return bytes.text;
}

std::uint32_t agreement_hash(const Problem& problem, const Plan& plan, const CallKind& kind) {
  const auto h = static_cast<std::uint32_t>(of_call<Hash>(problem, plan, kind).value());
  return h == 0 ? 1 : h;  // 0 stands for "refused"
}

}  // namespace tilelace::plan

namespace tilelace {

bool Plan::operator==(const Plan& other) const {
  // The bytes last: making them takes longest.
  return staging_bytes == other.staging_bytes && tile_m == other.tile_m && tile_n == other.tile_n &&
         staging_formula == other.staging_formula && reason == other.reason &&
         rejected == other.rejected && plan::choice_bytes(*this) == plan::choice_bytes(other);
}

}  // namespace tilelace
