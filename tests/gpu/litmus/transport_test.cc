// SPDX-License-Identifier: Apache-2.0
// What of the transport needs no GPU: the words of its errors.
#include <gtest/gtest.h>

#include "backend/cuda/copy_engine.h"
#include "backend/cuda/wait_control.h"

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
               "math, step 3, tile 5), got 11, expected 12");
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

TEST(CopyEngine, SchedulesThatOnlySendAreAccepted) {
  EXPECT_NO_THROW(require_only_sends(mesh_push()));
}

TEST(CopyEngine, SchedulesThatWaitAreRefused) {
  schedule::AgGemm ring = mesh_push(), pull = mesh_push(), deliver = mesh_push();
  ring.route.kind = RouteKind::ring;
  pull.transport = Transport::pull;
  deliver.deliver = true;

  for (const auto& s : {ring, pull, deliver}) {
    try {
      require_only_sends(s);
      ADD_FAILURE() << "expected a usage error";
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::usage) << e.what();
    }
  }
}

}  // namespace
}  // namespace tilelace::cuda
