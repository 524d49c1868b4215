#include "llm/retry.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace anneal::llm {
namespace {

using namespace std::chrono_literals;

TEST(Retry, TriesAgainOnlyWhereItCanHelp) {
  for (const int status : {408, 409, 425, 429, 500, 502, 503, 529}) {
    EXPECT_TRUE(is_retryable(status)) << status;
    EXPECT_FALSE(is_fatal(status)) << status;
  }
  for (const int status : {301, 302, 307, 308, 401, 402, 403, 404}) {
    EXPECT_FALSE(is_retryable(status)) << status;
    EXPECT_TRUE(is_fatal(status)) << status;
  }
  for (const int status : {400, 413, 422}) {  // about one request, not about the model
    EXPECT_FALSE(is_retryable(status)) << status;
    EXPECT_FALSE(is_fatal(status)) << status;
  }
}

TEST(Retry, ReadsRetryAfterInSecondsAndAsADate) {
  const auto now = std::chrono::system_clock::from_time_t(1445412480);  // Wed, 21 Oct 2015 07:28:00 GMT
  EXPECT_EQ(parse_retry_after("7", now), 7s);
  EXPECT_EQ(parse_retry_after(" 0.25 ", now), 250ms);
  EXPECT_EQ(parse_retry_after("Wed, 21 Oct 2015 07:28:30 GMT", now), 30s);
  EXPECT_EQ(parse_retry_after("Wed, 21 Oct 2015 07:27:00 GMT", now), 0s);
  EXPECT_EQ(parse_retry_after("-3", now), 0s);
  EXPECT_EQ(parse_retry_after("86400", now), 86400s);
  EXPECT_EQ(parse_retry_after("1e999", now), std::chrono::years(1));
  EXPECT_EQ(parse_retry_after("soon", now), std::nullopt);
  EXPECT_EQ(parse_retry_after("nan", now), std::nullopt);
  EXPECT_EQ(parse_retry_after("", now), std::nullopt);
}

RC_GTEST_PROP(Retry, DelayStaysWithinItsBounds, ()) {
  RetryPolicy policy;
  policy.first_delay = std::chrono::milliseconds(*rc::gen::inRange(0, 5000));
  policy.max_delay = std::chrono::milliseconds(*rc::gen::inRange(0, 100000));
  const int attempt = *rc::gen::inRange(1, 80);
  std::mt19937_64 random(*rc::gen::arbitrary<unsigned>());
  const auto delay = retry_delay(policy, attempt, std::nullopt, random);
  RC_ASSERT(delay >= 0ms);
  RC_ASSERT(delay <= policy.max_delay);
  if (attempt < 20) RC_ASSERT(delay <= policy.first_delay * (1 << (attempt - 1)));
  const auto asked = retry_delay(policy, attempt, 7000ms, random);
  RC_ASSERT(asked >= 7s);
  RC_ASSERT(asked <= 8s);
  const auto capped = retry_delay(policy, attempt, 24h, random);
  RC_ASSERT(capped >= max_retry_after);
  RC_ASSERT(capped <= max_retry_after + 1s);
}

}  // namespace
}  // namespace anneal::llm
