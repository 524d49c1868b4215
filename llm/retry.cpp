#include "llm/retry.h"

#include <curl/curl.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace anneal::llm {

using std::chrono::milliseconds;

bool is_retryable(int http_status) {
  return http_status == 408 || http_status == 409 || http_status == 425 || http_status == 429 ||
         (http_status >= 500 && http_status <= 599);
}

bool is_fatal(int http_status) {
  return http_status == 401 || http_status == 402 || http_status == 403 || http_status == 404 ||
         (http_status >= 300 && http_status <= 399);
}

std::optional<milliseconds> parse_retry_after(const std::string& value, std::chrono::system_clock::time_point now) {
  const auto first = value.find_first_not_of(" \t");
  if (first == std::string::npos) return std::nullopt;
  const auto last = value.find_last_not_of(" \t");
  const char* begin = value.data() + first;
  const char* end = value.data() + last + 1;
  const double most = std::chrono::duration<double>(std::chrono::years(1)).count();
  double seconds = 0;
  const auto parsed = std::from_chars(begin, end, seconds);
  if (parsed.ec == std::errc::result_out_of_range) {
    seconds = most;
  } else if (parsed.ec != std::errc() || parsed.ptr != end || !std::isfinite(seconds)) {
    const std::time_t date = curl_getdate(std::string(begin, end).c_str(), nullptr);
    if (date < 0) return std::nullopt;
    seconds = std::chrono::duration<double>(std::chrono::system_clock::from_time_t(date) - now).count();
  }
  return milliseconds(static_cast<std::int64_t>(std::ceil(std::clamp(seconds, 0.0, most) * 1000)));
}

milliseconds retry_delay(const RetryPolicy& policy, int attempt, std::optional<milliseconds> retry_after,
                         std::mt19937_64& random) {
  const auto uniform = [&random](milliseconds most) {
    return milliseconds(
        std::uniform_int_distribution<std::int64_t>(0, std::max<std::int64_t>(0, most.count()))(random));
  };
  milliseconds most = policy.first_delay;
  for (int i = 1; i < attempt && most < policy.max_delay; ++i) most *= 2;
  most = std::min(most, policy.max_delay);
  if (retry_after)
    return std::min<milliseconds>(*retry_after, max_retry_after) + uniform(std::min(most, milliseconds(1000)));
  return uniform(most);
}

}  // namespace anneal::llm
