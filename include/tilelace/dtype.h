// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tilelace {

/// Element type of a tensor: `bf16`, `fp16` or, on CPU ranks, `fp32`. Sums always run in fp32.
enum class DType : std::uint8_t { bf16, fp16, fp32 };

/// The type that products and sums accumulate in. Partial sums of this type are sent unrounded.
inline constexpr DType kAccumulator = DType::fp32;

/// Facts about an element type. Tensors of these types have no separate scale factors.
struct DTypeRow {
  DType type;                  ///< the type that the row is for
  std::string_view name;       ///< the name in the command and in records
  std::string_view long_name;  ///< the name in torch and in model configs
  std::string_view file_name;  ///< the name in safetensors files
  std::size_t bytes;           ///< size of an element
  double roundoff;             ///< unit roundoff u: one rounding errs by at most u * |value|
  int underflow_exponent;      ///< a result that underflows errs by at most 2^underflow_exponent
  bool on_gpus;                ///< whether GPU ranks support the type
};

/// The rows of all types, in the order of the enum.
inline constexpr DTypeRow kDTypes[] = {
    {DType::bf16, "bf16", "bfloat16", "BF16", 2, 1.0 / 256, -126, true},
    {DType::fp16, "fp16", "float16", "F16", 2, 1.0 / 2048, -25, true},
    {DType::fp32, "fp32", "float32", "F32", 4, 1.0 / 16777216, -126, false}};
/// The row for a value that names no type.
inline constexpr DTypeRow kNoDType = {DType{}, "?", "?", "?", 0, 0, 0, false};

/// The row of a type; kNoDType for a value that names no type.
constexpr const DTypeRow& row_of(DType t) {
  for (const DTypeRow& row : kDTypes)
    if (row.type == t) return row;
  return kNoDType;
}
/// Whether the value names a type.
constexpr bool is_known(DType t) { return row_of(t).bytes > 0; }

/// Bytes of an element; 0 for a value that names no type.
constexpr std::size_t size_of(DType t) { return row_of(t).bytes; }
/// The short name; "?" for a value that names no type.
constexpr std::string_view name_of(DType t) { return row_of(t).name; }
/// Unit roundoff u of the type: one rounding errs by at most u * |value|.
constexpr double unit_roundoff(DType t) { return row_of(t).roundoff; }

/// The type with this name in a column of the table (default: the short names), if there is one.
constexpr std::optional<DType> dtype_named(std::string_view name,
                                           std::string_view DTypeRow::*column = &DTypeRow::name) {
  for (const DTypeRow& row : kDTypes)
    if (row.*column == name) return row.type;
  return std::nullopt;
}

/// The names of all types in a column, as one text: "bf16, fp16 or fp32". Errors: none.
std::string names_of_dtypes(std::string_view DTypeRow::*column = &DTypeRow::name);
/// The short names of the types that GPU ranks support, as one text. Errors: none.
std::string names_of_gpu_dtypes();

}  // namespace tilelace
