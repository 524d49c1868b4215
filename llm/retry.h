// Which failures are worth another try, and when.
#pragma once

#include <chrono>
#include <optional>
#include <random>
#include <string>

#include "llm/client.h"

namespace anneal::llm {

// A server that asks for more patience than this is asked again after this: it may mean a day, or be wrong.
inline constexpr std::chrono::minutes max_retry_after{10};

// 408, 409, 425, 429 and every 5xx (529 is "overloaded").
bool is_retryable(int http_status);

// 401, 402, 403, 404, and every 3xx: the key, the payment or the model is refused, or the API is elsewhere; no request
// will fare better. A 400 is not among them: it is about one request (a prompt that is too long, a text that a filter
// refuses).
bool is_fatal(int http_status);

// The value of a Retry-After header (RFC 9110 §10.2.3: seconds, or a date that is compared with `now`). Never
// negative, at most a year; nothing when it is neither.
std::optional<std::chrono::milliseconds> parse_retry_after(const std::string& value,
                                                           std::chrono::system_clock::time_point now);

// The pause after the failed attempt number `attempt` (from 1): uniform in [0, min(max_delay, first_delay * 2^(attempt
// - 1))], so that requests which failed together do not come back together. With `retry_after`, that long, but
// at most max_retry_after, and up to a second more.
std::chrono::milliseconds retry_delay(const RetryPolicy& policy, int attempt,
                                      std::optional<std::chrono::milliseconds> retry_after, std::mt19937_64& random);

}  // namespace anneal::llm
