// SPDX-License-Identifier: Apache-2.0
#include "model/experts.h"

#include "model/data_files.h"
#include "model/fields.h"

namespace tilelace::model {
namespace {

constexpr const char* kFolder = "models/moe";

/// How a family spells what others spell otherwise.
struct ExpertsFamily {
  std::string_view name;  ///< its model_type
  const char* experts;
  const char* inner;
  const char* shared;  ///< how many experts every token takes; null: none
  ExpertActivation activation;
  bool biased;
};

constexpr std::array kExpertFamilies = {
    ExpertsFamily{"mixtral", "num_local_experts", "intermediate_size", nullptr,
                  ExpertActivation::swiglu, false},
    ExpertsFamily{"qwen3_moe", "num_experts", "moe_intermediate_size", nullptr,
                  ExpertActivation::swiglu, false},
    ExpertsFamily{"olmoe", "num_experts", "intermediate_size", nullptr, ExpertActivation::swiglu,
                  false},
    ExpertsFamily{"gpt_oss", "num_local_experts", "intermediate_size", nullptr,
                  ExpertActivation::swiglu_clamped, true},
    ExpertsFamily{"deepseek_v3", "n_routed_experts", "moe_intermediate_size", "n_shared_experts",
                  ExpertActivation::swiglu, false}};

const ExpertsFamily& experts_of(const Fields& fields) {
  const auto* type = fields.find("model_type");
  for (const ExpertsFamily& f : kExpertFamilies)
    if (type != nullptr && type->is_string() && f.name == type->get_ref<const std::string&>())
      return f;
  fields.fail("model_type",
              "a mixture of experts: one of " +
                  listed(kExpertFamilies, [](const ExpertsFamily& f) { return f.name; }));
}

/// All families gate by silu; gpt-oss's own form is called so, too.
void check_gate(const Fields& fields) {
  constexpr std::array<std::pair<std::string_view, bool>, 2> kGates = {
      {{"silu", true}, {"swish", true}}};
  static_cast<void>(fields.word("hidden_act", "silu", kGates));  // throws
}

}  // namespace

ExpertsConfig read_experts(const std::filesystem::path& file) {
  const auto object = parse_object("config", file, read_text("config", file, kMaxFile));
  const Fields fields(object, file.string());
  const ExpertsFamily& family = experts_of(fields);
  check_gate(fields);
  ExpertsConfig c;
  c.name = name_from(file);
  c.family = family.name;
  c.layers = fields.size("num_hidden_layers");
  c.hidden = fields.size("hidden_size");
  c.inner = fields.size(family.inner);
  c.experts = fields.size(family.experts);
  c.top_k = fields.size("num_experts_per_tok");
  if (c.top_k > c.experts)
    fields.fail("num_experts_per_tok", fmt::format("at most {} = {}", family.experts, c.experts));
  if (family.shared != nullptr && fields.find(family.shared) != nullptr) {
    const std::int64_t shared = std::int64_t{fields.size(family.shared)} * c.inner;
    if (shared > kMaxSize)
      fields.fail(family.shared,
                  fmt::format("at most {} (of {} columns each)", kMaxSize / c.inner, c.inner));
    c.shared = static_cast<int>(shared);
  }
  c.activation = family.activation;
  c.biased = family.biased;
  c.dtype = fields.dtype();
  return c;
}

std::vector<std::string> known_mixtures() { return known_files(kFolder); }

bool is_mixture(const std::string& name_or_path) {
  if (known_file(kFolder, name_or_path)) return true;
  std::error_code error;
  std::filesystem::path path(name_or_path);
  if (std::filesystem::is_directory(path, error)) path /= "config.json";
  if (!std::filesystem::is_regular_file(path, error)) return false;
  const auto object = parse_object("config", path, read_text("config", path, kMaxFile));
  const auto type = object.find("model_type");
  return type != object.end() && type->is_string() &&
         std::ranges::find(kExpertFamilies, type->get_ref<const std::string&>(),
                           &ExpertsFamily::name) != kExpertFamilies.end();
}

std::filesystem::path find_mixture(const std::string& name_or_path) {
  std::error_code error;
  if (const auto file = known_file(kFolder, name_or_path)) return *file;
  std::filesystem::path path(name_or_path);
  if (std::filesystem::is_directory(path, error)) path /= "config.json";
  require(!name_or_path.empty() && std::filesystem::exists(path, error),
          "--model: got \"{}\", expected {}, a config.json, or a folder with one", name_or_path,
          known_names(kFolder));
  return path;
}

}  // namespace tilelace::model
