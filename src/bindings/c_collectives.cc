// SPDX-License-Identifier: Apache-2.0
// The C API of collectives.
#include <string_view>

#include "bindings/c_handles.h"
#include "bindings/c_structs.h"
#include "tilelace/all_reduce_norm.h"

using tilelace::c_api::as;
using tilelace::c_api::guarded;
using tilelace::c_api::known;
using tilelace::c_api::list_of;
using tilelace::c_api::need;
using tilelace::c_api::read_or_refuse;

namespace {

/// What both kinds of arguments have of it.
template <class Args>
tilelace::CollectiveOptions options_of(const Args& a) {
  tilelace::CollectiveOptions o;
  if (a.lines != 0) o.lines = a.lines > 0;
  if (a.workers != 0) o.workers = a.workers;
  if (a.chunk != 0) o.chunk = a.chunk;
  return o;
}

tilelace_status run(tilelace::Collective collective, tilelace_communicator* c,
                    const tilelace_collective_args* args) {
  return guarded([&] {
    const char* name = row_of(collective).name.data();
    need(c, name, "communicator");
    tilelace::CollectiveArgs call;
    tilelace::CollectiveOptions options;
    read_or_refuse(c, call.stream, [&] {
      need(args, name, "args");
      const tilelace_collective_args a = known(*args, name, "args");
      call.stream = a.stream;  // first: a refusal goes there, too
      call = {a.in,
              a.out,
              as<tilelace::Item>(a.item),
              as<tilelace::Reduction>(a.reduction),
              list_of(name, "counts", a.counts, a.num_counts),
              list_of(name, "takes", a.takes, a.num_takes),
              a.stream};
      options = options_of(a);
      if (a.shots != 0) options.shots = a.shots;
    });
    tilelace::collect(c->member, collective, call, options);
  });
}

}  // namespace

extern "C" {

tilelace_status tilelace_prepare_collectives(tilelace_communicator* c) {
  return guarded([&] {
    need(c, "prepare_collectives", "communicator");
    tilelace::prepare_collectives(c->member);
  });
}

tilelace_status tilelace_all_reduce(tilelace_communicator* c,
                                    const tilelace_collective_args* args) {
  return run(tilelace::Collective::all_reduce, c, args);
}

tilelace_status tilelace_all_gather(tilelace_communicator* c,
                                    const tilelace_collective_args* args) {
  return run(tilelace::Collective::all_gather, c, args);
}

tilelace_status tilelace_reduce_scatter(tilelace_communicator* c,
                                        const tilelace_collective_args* args) {
  return run(tilelace::Collective::reduce_scatter, c, args);
}

tilelace_status tilelace_all_to_all(tilelace_communicator* c,
                                    const tilelace_collective_args* args) {
  return run(tilelace::Collective::all_to_all, c, args);
}

tilelace_status tilelace_all_reduce_norm(tilelace_communicator* c,
                                         const tilelace_all_reduce_norm_args* args) {
  return guarded([&] {
    const char* name = "all_reduce_norm";
    need(c, name, "communicator");
    tilelace::AllReduceNormArgs call;
    tilelace::CollectiveOptions options;
    read_or_refuse(c, call.stream, [&] {
      need(args, name, "args");
      const tilelace_all_reduce_norm_args a = known(*args, name, "args");
      call = {a.x,
              a.residual,
              a.weight,
              a.eps,
              a.out,
              a.normed,
              as<tilelace::NormQuant>(a.quant),
              a.quantised,
              a.scales,
              as<tilelace::Item>(a.item),
              a.m,
              a.n,
              a.stream};
      options = options_of(a);
    });
    tilelace::all_reduce_norm(c->member, call, options);
  });
}

}  // extern "C"
