#include "evaluator/daemon/claims.h"

#include <algorithm>
#include <optional>

#include "evaluator/whole_number.h"

namespace anneal::evaluator {

using nlohmann::json;

LaunchClaims launch_claims(const json& kernels) {
  LaunchClaims claims;
  if (const auto launches = kernels.find("launches"); launches != kernels.end()) {
    claims.launches = whole_number<int>(*launches);
  }
  for (const json& one : kernels.at("kernels")) {
    const auto number = [&](const char* key) -> std::optional<int> {
      const auto found = one.find(key);
      return found != one.end() && found->is_number_integer() ? std::optional(whole_number<int>(*found)) : std::nullopt;
    };
    claims.kernels.push_back({one.value("name", ""), number("registers"), number("spills"), number("shared_bytes")});
  }
  const json& dots = kernels.at("dots");
  claims.dots.integer = dots.value("integer", false);
  claims.dots.floating = dots.value("floating", "");
  if (const auto products = dots.find("integer_products"); products != dots.end()) {
    claims.dots.integer_products = static_cast<double>(whole_number<std::int64_t>(*products));
  }
  return claims;
}

std::string host_compute(const json& operators, std::int64_t largest, const std::vector<std::string>& allowed) {
  constexpr std::int64_t least = 64;
  if (largest < least) return "";
  std::int64_t sum = 0, most = -1;
  int others = -1;
  std::string named;
  for (const auto& [name, value] : operators.items()) {
    if (std::find(allowed.begin(), allowed.end(), name) != allowed.end()) continue;
    const auto elements = whole_number<std::int64_t>(value);
    sum += std::clamp<std::int64_t>(elements, 0, largest);  // a claim: it must not overflow
    ++others;
    if (elements > most) {
      most = elements;
      named = name;
    }
  }
  if (sum < largest / 4) return "";
  if (others > 0) named += " and " + std::to_string(others) + (others == 1 ? " other operator" : " other operators");
  return named;
}

}  // namespace anneal::evaluator
