// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts on CPU ranks: both halves against fp64 with derived bounds, and what happens
// when ranks are wrong or disagree.
#include <functional>
#include <memory>

#include "core/points.h"
#include "moe_helpers.h"
#include "ops_usage_helpers.h"

namespace tilelace::test {
namespace {

using usage::caught;

/// Ranks as threads with a case's tensors.
class Group {
 public:
  explicit Group(int ranks)
      : members_(Communicator::threads(ranks, {.workers = 2, .timeout_s = 60})) {}

  void on_ranks(const std::function<void(int, Communicator&)>& work) {
    comm::test::run_threads(static_cast<int>(members_.size()),
                            [&](int r) { work(r, members_[static_cast<std::size_t>(r)]); });
  }
  /// Both halves; what is wrong with any rank's results, or "".
  std::string wrong(const MoeCase& c, bool prepares = true) {
    std::vector<std::unique_ptr<MoeRank>> ranks(members_.size());
    on_ranks([&](int r, Communicator& member) {
      auto& mine = ranks[static_cast<std::size_t>(r)];
      mine = std::make_unique<MoeRank>(c, r);
      if (prepares) prepare_moe(member, c.on(r));
      ag_moe(member, mine->first());
      mine->run_second(member);
    });
    std::vector<std::vector<float>> acts;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      const std::string text = ranks[r]->wrong_first();
      if (!text.empty()) return fmt::format("{}: first half, rank {}: {}", c.text(), r, text);
      acts.push_back(ranks[r]->rows_made());
    }
    const auto sums = second_half(c, acts);
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      const std::string text = ranks[r]->wrong_second(sums);
      if (!text.empty()) return fmt::format("{}: second half, rank {}: {}", c.text(), r, text);
    }
    return "";
  }

 private:
  std::vector<Communicator> members_;
};

/// Slots and scratch are filled with NaNs after each call.
class Moe : public testing::Test {
 protected:
  void SetUp() override { points::poison_slots = true; }
  void TearDown() override { points::poison_slots = false; }
};

TEST_F(Moe, RandomLayersAreWithinTheirBounds) {
  for (int ranks = 1; ranks <= 4; ++ranks) {
    Group group(ranks);
    MoeDraw draw(static_cast<std::uint32_t>(ranks));
    for (int i = 0; i < 20 * night_times(); ++i) ASSERT_EQ(group.wrong(draw.next(ranks)), "");
  }
}

TEST_F(Moe, IntegersAreExact) {
  for (int ranks = 2; ranks <= 4; ++ranks) {
    Group group(ranks);
    MoeDraw draw(50 + static_cast<std::uint32_t>(ranks));
    for (int i = 0; i < 20 * night_times(); ++i) {
      MoeCase c = draw.next(ranks);
      c.integers = true, c.layer.activation = ExpertActivation::none;
      c.layer.hidden = c.layer.inner = 8;
      draw.route(c);
      ASSERT_EQ(group.wrong(c), "");
    }
  }
}

TEST_F(Moe, CallsTakeAnyRoutingOnceTheLayerIsPrepared) {
  const int ranks = 3;
  Group group(ranks);
  MoeDraw draw(9);
  MoeCase c = draw.next(ranks);
  while (c.m() < 10) c = draw.next(ranks);
  group.on_ranks([&](int r, Communicator& member) { prepare_moe(member, c.on(r)); });
  for (int i = 0; i < 80 * night_times(); ++i) {
    draw.route(c);
    ASSERT_EQ(group.wrong(c, false), "");
  }
}

TEST_F(Moe, EveryRunAndRankHasTheSameBits) {
  const int ranks = 4;
  Group group(ranks);
  MoeDraw draw(10);
  for (int i = 0; i < 8; ++i) {
    MoeCase c = draw.next(ranks);
    c.scatters = false;
    if (c.add == MoeCase::Add::own) c.add = MoeCase::Add::all;
    std::vector<std::unique_ptr<MoeRank>> tensors;
    for (int r = 0; r < ranks; ++r) tensors.push_back(std::make_unique<MoeRank>(c, r));
    std::vector<std::vector<float>> before(ranks);
    group.on_ranks([&](int r, Communicator& member) {
      MoeRank& mine = *tensors[static_cast<std::size_t>(r)];
      prepare_moe(member, c.on(r));
      for (int run = 0; run < 10; ++run) {
        ag_moe(member, mine.first());
        mine.run_second(member);
        auto& first = before[static_cast<std::size_t>(r)];
        if (run == 0) first = mine.out();
        EXPECT_EQ(mine.out(), first) << c.text();
      }
    });
    for (const auto& out : before) EXPECT_EQ(out, before[0]) << c.text();
  }
}

/// Three ranks with a case that they prepare, and that a test then spoils.
class Spoilt : public Moe {
 protected:
  static constexpr int kRanks = 3;

  Spoilt() {
    MoeCase& c = case_;
    c.layer.hidden = 16, c.layer.inner = 8, c.layer.m = 6, c.layer.experts = 4, c.layer.top_k = 2;
    c.layer.dtype = kAccumulator;
    c.rows = {2, 2, 2};
    c.parts.assign(kRanks, {0, 4});
    c.ids = {0, 1, 2, 3, 3, 0, 1, 1, -1, 2, 2, 0};
    c.weights.assign(12, 0.5F);
    c.type = Item::i64;
    c.scatters = false;
    c.seed = 2;
  }
  void prepare() {
    group_.on_ranks([&](int r, Communicator& member) { prepare_moe(member, case_.on(r)); });
  }
  using Texts = std::vector<std::string>;
  Texts run(const std::function<void(int, Communicator&)>& work) {
    Texts texts(kRanks);
    group_.on_ranks([&](int r, Communicator& member) {
      texts[static_cast<std::size_t>(r)] = caught([&] { work(r, member); });
    });
    return texts;
  }
  void expect_all(const Texts& texts, const std::string& part) {
    for (const auto& text : texts) {
      EXPECT_EQ(text.rfind("usage: ", 0), 0U) << text;
      EXPECT_NE(text.find(part), std::string::npos) << text;
    }
  }
  /// Ranks are in step again.
  void expect_usable() { EXPECT_EQ(group_.wrong(case_, false), ""); }

  MoeCase case_;
  Group group_{kRanks};
};

TEST_F(Spoilt, IdsThatNameNoExpertAreRefusedOnEveryRank) {
  prepare();
  for (const std::int64_t id : {std::int64_t{4}, std::int64_t{-2}, (std::int64_t{1} << 32) + 1}) {
    MoeCase bad = case_;
    bad.ids[7] = id;
    expect_all(
        run([&](int r, Communicator& member) {
          MoeRank mine(bad, r);
          const auto text = caught([&] { ag_moe(member, mine.first()); });
          EXPECT_TRUE(mine.act_untouched());
          throw Error(ErrorKind::usage, text);
        }),
        "ag_moe: ids: got an id that names no expert, for token 3, slot 1, expected -1 to 3");
  }
  expect_usable();
}

TEST_F(Spoilt, ReplicatedIdsThatNameNoExpertAreRefusedOnEveryRank) {
  case_.layer.replicated = true;
  prepare();
  MoeCase bad = case_;
  bad.ids[0] = 99;
  expect_all(run([&](int r, Communicator& member) {
               MoeRank mine(bad, r);
               ag_moe(member, mine.first());
             }),
             "names no expert, for token 0, slot 0");
  expect_usable();
  // On one rank alone: the others learn of it where they wait.
  const auto texts = run([&](int r, Communicator& member) {
    MoeRank mine(r == 1 ? bad : case_, r);
    ag_moe(member, mine.first());
    const auto text = caught([&] { mine.run_second(member); });
    EXPECT_TRUE(mine.out_untouched());
    throw Error(ErrorKind::usage, text);
  });
  expect_all(texts, "an id that names no expert");
  EXPECT_NE(texts[0].find("moe_ar: rank 1 refused "), std::string::npos) << texts[0];
  expect_usable();
}

TEST_F(Spoilt, RanksWhoseRoutingsDisagreeGetAnErrorOnEveryRank) {
  case_.layer.replicated = true;
  for (const bool scatters : {false, true}) {
    case_.scatters = scatters;
    prepare();
    MoeCase other = case_;
    other.ids[5] = 1;
    expect_all(run([&](int r, Communicator& member) {
                 MoeRank mine(r == 2 ? other : case_, r);
                 ag_moe(member, mine.first());
                 const auto text = caught([&] { mine.run_second(member); });
                 EXPECT_TRUE(mine.out_untouched());
                 throw Error(ErrorKind::usage, text);
               }),
               ", routing ");
    expect_usable();
  }
}

TEST_F(Spoilt, ARankWithAWrongArgumentTellsTheOthers) {
  prepare();
  using Spoil = std::function<void(AgMoeArgs&)>;
  const std::pair<Spoil, const char*> firsts[] = {
      {[](AgMoeArgs& a) { a.m = 7; }, "ag_moe: m: got 7, expected 0 to the layer's 6"},
      {[](AgMoeArgs& a) { a.layer.hidden = 12; }, "hidden: got 12, expected a multiple of 8"},
      {[](AgMoeArgs& a) { a.layer.first = 1; }, "experts of this rank: got 4 from expert 1 on"},
      {[](AgMoeArgs& a) { a.x.rows = 3; }, "x: got [3, 16], expected [2, 16]"},
      {[](AgMoeArgs& a) { a.x.stride = 32; }, "x: got a row stride of 32, expected 16"},
      {[](AgMoeArgs& a) { a.routing.ids = nullptr; }, "ids: got null data"},
      {[](AgMoeArgs& a) { a.routing.type = Item::u8; }, "ids: got the unknown type"},
      {[](AgMoeArgs& a) { a.routing.weights = nullptr; }, "weights: got null data"},
      {[](AgMoeArgs& a) { a.map = nullptr; }, "map: got null data"},
      {[](AgMoeArgs& a) { a.out.rows = 5; }, "out: got [5, 8], expected [12, 8]"},
      {[](AgMoeArgs& a) { a.weight.rows = 1; }, "weight: got [1, 16], expected [64, 16]"},
      {[](AgMoeArgs& a) { a.layer.activation = ExpertActivation{77}; }, "unknown value 77"},
      {[](AgMoeArgs& a) { a.rows = {}, a.m = 5; }, "expected [1, 16]"}};
  for (const auto& [spoil, text] : firsts) {
    expect_all(run([&, spoil = spoil](int r, Communicator& member) {
                 MoeRank mine(case_, r);
                 AgMoeArgs args = mine.first();
                 if (r == 2) spoil(args);
                 ag_moe(member, args);
               }),
               text);
    expect_usable();
  }
}

TEST_F(Spoilt, AMapOfAnotherCallIsRefused) {
  prepare();
  expect_all(run([&](int r, Communicator& member) {
               MoeRank mine(case_, r);
               ag_moe(member, mine.first());
               if (r == 0) mine.map()[3] = 1 << 30;  // a begin
               mine.run_second(member);
             }),
             "map: got one that ag_moe did not make for this layer and m");
  expect_usable();
}

TEST_F(Spoilt, LayersThatDifferAreNamed) {
  prepare();
  expect_all(run([&](int r, Communicator& member) {
               MoeRank mine(case_, r);
               AgMoeArgs args = mine.first();
               if (r == 1) args.layer.activation = ExpertActivation::swiglu_clamped;
               ag_moe(member, args);
             }),
             "swiglu_clamped");
  expect_usable();
}

TEST_F(Spoilt, CallsBeforePrepareAreRefused) {
  expect_all(run([&](int r, Communicator& member) {
               MoeRank mine(case_, r);
               ag_moe(member, mine.first());
             }),
             "is not prepared: call prepare_moe with this layer");
  prepare();
  expect_usable();
}

TEST_F(Spoilt, LayersThatAreNoneAreNotPrepared) {
  for (int i = 0; i < 2; ++i) {  // the second time staging is there already
    MoeLayer bad = case_.on(0);
    bad.top_k = 0;
    expect_all(run([&](int, Communicator& member) { prepare_moe(member, bad); }),
               "top_k: got 0, expected 1 to");
    prepare();
  }
  expect_usable();
}

}  // namespace
}  // namespace tilelace::test
