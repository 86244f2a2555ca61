// SPDX-License-Identifier: Apache-2.0
// What of the transport needs no GPU: the words of its errors.
#include <gtest/gtest.h>

#include "backend/cuda/link/copy_engine.h"
#include "backend/cuda/rank/wait_control.h"

namespace tilelace::cuda {
namespace {

TEST(WaitControl, AnExpiredWaitNamesWhoDidNotCome) {
  WaitRecord record;
  record.call = 12;
  record.place = {Role::math, 3, 5, 2, 7};
  record.have = 11;
  record.want = 12;

  const Error error = expired_error(record, "ag_gemm", 0, 2.0);

  EXPECT_EQ(error.kind(), ErrorKind::timeout);
  EXPECT_STREQ(error.what(),
               "ag_gemm: rank 2 did not signal flag 7 of call 12 within 2 s (rank 0 waited, role "
               "math, step 3, tile 5): got 11, expected 12");
}

TEST(WaitControl, AMissingHeaderIsNoFlagNumber) {
  WaitRecord record;
  record.place = {Role::load, 0, -1, 1, kHeaderFlag};

  const Error error = expired_error(record, "gemm_rs", 3, 0.5);

  EXPECT_NE(std::string(error.what()).find("did not signal its header of call 0 within 0.5 s"),
            std::string::npos);
}

schedule::AgGemm mesh_push() {
  schedule::AgGemm s;
  s.route = {RouteKind::mesh, 4, 1};
  s.split = {64, 4, nullptr};
  return s;
}

std::string refusal(const schedule::AgGemm& s, bool may_wait) {
  try {
    require_copies(s, may_wait);
    return "accepted";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::usage);
    return e.what();
  }
}

TEST(CopyEngine, SchedulesThatOnlySendAreAccepted) {
  EXPECT_EQ(refusal(mesh_push(), false), "accepted");
  EXPECT_EQ(refusal(mesh_push(), true), "accepted");
}

TEST(CopyEngine, SchedulesThatWaitNeedTheRightTo) {
  schedule::AgGemm ring = mesh_push(), pull = mesh_push();
  ring.route.kind = RouteKind::ring;
  pull.transport = Transport::pull;

  EXPECT_EQ(refusal(ring, true), "accepted");
  EXPECT_EQ(refusal(pull, true), "accepted");
  EXPECT_NE(refusal(ring, false).find("route: got ring, whose relays wait"), std::string::npos);
  EXPECT_NE(refusal(pull, false).find("transport: got pull, which waits"), std::string::npos);
}

TEST(CopyEngine, WhatCopyEnginesDoNotDoIsRefused) {
  schedule::AgGemm store = mesh_push(), deliver = mesh_push();
  store.transport = Transport::store;
  deliver.deliver = true;

  for (const bool may_wait : {false, true}) {
    EXPECT_NE(refusal(store, may_wait).find("got store"), std::string::npos);
    EXPECT_NE(refusal(deliver, may_wait).find("the gathered operand"), std::string::npos);
  }
}

}  // namespace
}  // namespace tilelace::cuda
