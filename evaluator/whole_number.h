// Integers out of JSON that somebody else wrote.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace anneal::evaluator {

// The integer `value`. Throws nlohmann::json::exception when it is none, or none that an Int can hold: get<Int>() would
// wrap it around, and is undefined for a floating-point number out of range.
template <class Int>
Int whole_number(const nlohmann::json& value) {
  if (value.is_number_unsigned()) {
    if (const auto number = value.get<std::uint64_t>(); std::in_range<Int>(number)) return static_cast<Int>(number);
  } else if (value.is_number_integer()) {
    if (const auto number = value.get<std::int64_t>(); std::in_range<Int>(number)) return static_cast<Int>(number);
  }
  throw nlohmann::json::type_error::create(302, "not a whole number, or out of range", &value);
}

// Of a list of them. Throws nlohmann::json::exception.
template <class Int>
std::vector<Int> whole_numbers(const nlohmann::json& list) {
  if (!list.is_array()) throw nlohmann::json::type_error::create(302, "not a list of whole numbers", &list);
  std::vector<Int> numbers;
  numbers.reserve(list.size());
  for (const nlohmann::json& value : list) numbers.push_back(whole_number<Int>(value));
  return numbers;
}

}  // namespace anneal::evaluator
