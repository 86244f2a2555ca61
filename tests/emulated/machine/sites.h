// SPDX-License-Identifier: Apache-2.0
// Places in kernels that order memory (tools/fence_sites.py lists them), and what happens without
// one: it does what it did, its waits wait, but it promises nothing, so what it had ordered is
// found. TILELACE_EMULATED_WITHOUT=gemm_gate.h:66 takes one away, to the end. With
// TILELACE_EMULATED_SITES=FILE every one that is reached is taken away in turn, until that is
// noticed or the devices have nothing to do; what happened before is forgotten then. The file says
// how often it was reached and taken away, and whether that was noticed.
#pragma once

namespace tilelace::emulated {

struct Fiber;

/// As long as a call from a site lasts; translate.py makes them.
class Site {
 public:
  explicit Site(const char* name);
  ~Site();
  Site(const Site&) = delete;
  Site& operator=(const Site&) = delete;

 private:
  Fiber* without_ = nullptr;
};

namespace sites {
/// Something is out of order; whether that is because a site is away, and has been noted.
bool notice();
void end_kernel();
/// Whether the next site's turn has come: forget what happened. `idle`: the devices have nothing to
/// do.
bool advance(bool idle);
}  // namespace sites

}  // namespace tilelace::emulated
