// SPDX-License-Identifier: Apache-2.0
// Sites: places in kernels that order memory (tools/fence_sites.py lists them). A site can be
// disabled to test whether it is needed: it still does its work and waits, but passes on no
// knowledge, so the check (machine/order.h) finds accesses that only this site had ordered.
// TILELACE_EMULATED_WITHOUT=send_rows.h:33 disables a site for the whole run. With
// TILELACE_EMULATED_SITES=FILE, sites are disabled in turn. A turn ends at an unordered access,
// after 32 kernels, or when the devices become idle without having reached the site. Accesses are
// then forgotten. At the end FILE says how often each site was reached, disabled and noticed.
#pragma once

namespace tilelace::emulated {

struct Fiber;

/// An object that lives as long as a call from a site; translate.py inserts it.
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
/// Called for an unordered access. If a site is disabled in turn (FILE), counts the site as noticed
/// and returns true.
bool notice();
void end_kernel();
/// Disables the next site if the turn of the current one is over. Returns whether the caller must
/// then forget all accesses. `idle`: the devices are idle.
bool advance(bool idle);
}  // namespace sites

}  // namespace tilelace::emulated
