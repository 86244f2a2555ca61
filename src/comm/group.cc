// SPDX-License-Identifier: Apache-2.0
#include "comm/group.h"

#include "comm/control.h"
#include "comm/failure.h"
#include "comm/std_atomics.h"
#include "core/check.h"

namespace tilelace::comm {
namespace {

ControlPage* page_of(const SymmetricMemory& control, int rank) {
  return reinterpret_cast<ControlPage*>(control.peer(rank));
}

/// The word came from a peer's memory: a kind that does not exist must not get out.
ErrorKind kind_of(AbortReason reason) {
  const auto kind = static_cast<ErrorKind>(reason.kind);
  return reason.kind >= 1 && reason.kind <= 4 ? kind : ErrorKind::system;
}

}  // namespace

Group::Group(int rank, int ranks, std::shared_ptr<SymmetricMemory> control)
    : rank_(rank), ranks_(ranks), control_(std::move(control)) {}

Group::~Group() { mark_leaving(); }

const AbortWord* Group::abort_word() const { return &page_of(*control_, rank_)->abort; }

void Group::abort(AbortReason reason) noexcept {
  // A peer whose telling has come only as far as this rank is still the one to blame.
  abort_own(reason);
  const AbortReason first = read_abort<StdAtomics>(abort_word());
  for (int r = 0; r < ranks_; ++r) raise_abort<StdAtomics>(&page_of(*control_, r)->abort, first);
}

void Group::abort_own(AbortReason reason) noexcept {
  raise_abort<StdAtomics>(&page_of(*control_, rank_)->abort, reason);
}

void Group::throw_if_aborted(std::string_view op) const {
  const AbortReason reason = read_abort<StdAtomics>(abort_word());
  if (reason.kind == 0) return;
  const ErrorKind kind = kind_of(reason);
  const int about = reason.about;
  const int origin = reason.origin;
  const std::string_view who = about == rank_ ? "own" : "peer";
  if (about == origin) raise(kind, "{}: {} rank {} aborted the group", op, who, about);
  switch (kind) {
    case ErrorKind::peer:
      raise(kind, "{}: {} rank {} is gone (seen by rank {})", op, who, about, origin);
    case ErrorKind::timeout:
      raise(kind, "{}: {} rank {} did not come in time (rank {} waited)", op, who, about, origin);
    case ErrorKind::usage:
    case ErrorKind::system: break;
  }
  raise(kind,
        "{}: rank {} ended the group because of {} rank {} ({} error): see the error of rank {}",
        op, origin, who, about, name_of(kind), origin);
}

bool Group::has_left(int peer) const {
  return StdAtomics::load_acquire(&page_of(*control_, peer)->leaving) != 0;
}

void Group::mark_leaving() noexcept {
  // Why it leaves goes first, where it knows of a reason: peers would take this rank for the one to
  // blame.
  const AbortReason why = read_abort<StdAtomics>(abort_word());
  if (why.kind != 0) abort(why);
  StdAtomics::store_release(&page_of(*control_, rank_)->leaving, Flag{1});
}

void Group::give_up(const Failure& failure) {
  abort({static_cast<std::uint8_t>(failure.kind()), static_cast<std::uint16_t>(rank_),
         static_cast<std::uint16_t>(failure.about())});
  throw Error(failure.kind(), failure.what());
}

}  // namespace tilelace::comm
