// SPDX-License-Identifier: Apache-2.0
// The C API of mixtures of experts.
#include "bindings/c_handles.h"
#include "bindings/c_structs.h"
#include "tilelace/moe.h"

using tilelace::c_api::as;
using tilelace::c_api::guarded;
using tilelace::c_api::known;
using tilelace::c_api::list_of;
using tilelace::c_api::need;
using tilelace::c_api::read_or_refuse;
using tilelace::c_api::view;

namespace {

tilelace::MoeLayer layer_of(const char* name, const tilelace_moe_layer* given) {
  need(given, name, "layer");
  const tilelace_moe_layer l = known(*given, name, "layer");
  tilelace::MoeLayer layer;
  layer.dtype = as<tilelace::DType>(l.dtype);
  layer.m = l.m, layer.hidden = l.hidden, layer.inner = l.inner;
  layer.experts = l.experts, layer.top_k = l.top_k;
  layer.first = l.first, layer.here = l.here;
  layer.activation = as<tilelace::ExpertActivation>(l.activation);
  layer.replicated = l.replicated != 0;
  layer.weight_on_input = l.weight_on_input != 0;
  return layer;
}

tilelace_status reduce(const char* name,
                       void (*call)(tilelace::Communicator&, const tilelace::MoeReduceArgs&),
                       tilelace_communicator* c, const tilelace_moe_reduce_args* args) {
  return guarded([&] {
    need(c, name, "communicator");
    tilelace::MoeReduceArgs to;
    read_or_refuse(c, to.stream, [&] {
      need(args, name, "args");
      const tilelace_moe_reduce_args a = known(*args, name, "args");
      to.stream = a.stream;
      to.layer = layer_of(name, a.layer);
      to.m = a.m, to.map = a.map;
      to.x = view(a.x), to.weight = view(a.weight), to.bias = view(a.bias);
      to.add = view(a.add), to.out = view(a.out);
      to.rows = list_of(name, "rows", a.rows, a.num_rows);
    });
    call(c->member, to);
  });
}

}  // namespace

extern "C" {

tilelace_status tilelace_grouped_gemm(const tilelace_grouped_gemm_args* args) {
  return guarded([&] {
    const char* name = "grouped_gemm";
    need(args, name, "args");
    const tilelace_grouped_gemm_args a = known(*args, name, "args");
    tilelace::GroupedGemmArgs to{view(a.x), a.begins, a.experts, view(a.weight), view(a.bias)};
    to.activation = as<tilelace::ExpertActivation>(a.activation);
    to.scales = a.scales, to.sources = a.sources;
    to.out = view(a.out);
    to.device = as<tilelace::Device>(a.device);
    to.stream = a.stream;
    tilelace::grouped_gemm(to);
  });
}

tilelace_status tilelace_prepare_moe(tilelace_communicator* c, const tilelace_moe_layer* layer) {
  return guarded([&] {
    need(c, "prepare_moe", "communicator");
    tilelace::MoeLayer to;
    try {
      to = layer_of("prepare_moe", layer);
    } catch (const std::exception& e) {
      tilelace::refuse_prepare_moe(c->member, e.what());
      throw;
    }
    tilelace::prepare_moe(c->member, to);
  });
}

tilelace_status tilelace_moe_map_words(const tilelace_moe_layer* layer, int64_t m, int64_t* words) {
  return guarded([&] {
    need(words, "moe_map_words", "words");
    *words = tilelace::moe_map_words(layer_of("moe_map_words", layer), m);
  });
}

tilelace_status tilelace_ag_moe(tilelace_communicator* c, const tilelace_ag_moe_args* args) {
  return guarded([&] {
    const char* name = "ag_moe";
    need(c, name, "communicator");
    tilelace::AgMoeArgs to;
    read_or_refuse(c, to.stream, [&] {
      need(args, name, "args");
      const tilelace_ag_moe_args a = known(*args, name, "args");
      to.stream = a.stream;
      to.layer = layer_of(name, a.layer);
      to.m = a.m, to.map = a.map;
      to.routing = {a.ids, as<tilelace::Item>(a.id_type), a.weights};
      to.x = view(a.x), to.weight = view(a.weight), to.bias = view(a.bias);
      to.out = view(a.out), to.gathered = view(a.gathered);
      to.rows = list_of(name, "rows", a.rows, a.num_rows);
    });
    tilelace::ag_moe(c->member, to);
  });
}

tilelace_status tilelace_moe_rs(tilelace_communicator* c, const tilelace_moe_reduce_args* args) {
  return reduce("moe_rs", tilelace::moe_rs, c, args);
}

tilelace_status tilelace_moe_ar(tilelace_communicator* c, const tilelace_moe_reduce_args* args) {
  return reduce("moe_ar", tilelace::moe_ar, c, args);
}

}  // extern "C"
