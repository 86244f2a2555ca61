// SPDX-License-Identifier: Apache-2.0
// Sites: places in kernels that order memory (tools/fence_sites.py lists them). A site can be
// disabled to test whether it is needed: it still does its work and waits, but guarantees nothing,
// so the check finds accesses that only this site had ordered.
// TILELACE_EMULATED_WITHOUT=gemm_gate.h:66 disables a site for the whole run. With
// TILELACE_EMULATED_SITES=FILE each site that is reached is disabled in turn, until the check
// notices it or the devices are idle; then earlier accesses are forgotten. The file says how often
// a site was reached and disabled, and whether that was noticed.
#pragma once

namespace tilelace::emulated {

struct Fiber;

/// Lives as long as a call from a site; translate.py inserts these objects.
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
/// Called for an unordered access. Returns whether a disabled site explains it, and then notes
/// that.
bool notice();
void end_kernel();
/// Whether it is the next site's turn; then the caller must forget all accesses. `idle`: the
/// devices are idle.
bool advance(bool idle);
}  // namespace sites

}  // namespace tilelace::emulated
