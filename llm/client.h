// The door to all models of an experiment: stored replies first, then the wire, with limits and retries.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "async/clock.h"
#include "async/result.h"
#include "llm/exchange.h"

namespace anneal::llm {

class HttpTransport;  // llm/http.h

struct Limits {
  int concurrency = 8;
};

struct ModelConfig {
  std::string name;      // the key under `models:`
  std::string api;       // openai | replay
  std::string base_url;  // openai: "https://api.deepseek.com/v1"
  std::string model;     // the provider's model string
  std::string key_env;   // environment variable that holds the key; empty: no Authorization header
  std::string from;      // replay: path of the recording (JSONL)
  Sampling sampling;     // defaults that a request may override
  Limits limits;
  bool allow_plain_http = false;              // http:// to anything but loopback is refused without it
  std::string base_url_place, key_env_place;  // "file:line:column" that errors name; empty: the model's name alone
};

// What can be said against `config` without network and store: a base_url that is none, plain http off loopback, a key
// variable that is not set (ErrorKind::missing), an unreadable recording.
Result<void> check_model(const ModelConfig& config);

struct RetryPolicy {
  int max_attempts = 6;
  std::chrono::milliseconds first_delay{500};  // doubled each time, full jitter
  std::chrono::milliseconds max_delay{60'000};
  std::chrono::seconds request_timeout{600};
};

// Totals since the client was made, for the progress line.
struct Counters {
  int in_flight = 0;
  std::int64_t calls = 0;       // replies received over the wire or from a recording
  std::int64_t from_store = 0;  // replies found in the store
  std::int64_t retries = 0;
  std::int64_t prompt_tokens = 0;
  std::int64_t completion_tokens = 0;
  // Calls that failed and wait to be sent again, and why and how long the latest of them does.
  int backing_off = 0;
  std::string backing_off_because;
};

// Lives on one loop. Destroy it only after every complete() has returned.
class Client {
 public:
  // Checks everything that can be checked before the first call: unknown api, missing key variable (ErrorKind::missing,
  // names the variable), unreadable recording (names file and line), plain http off loopback. `store` outlives the
  // client.
  static Result<std::unique_ptr<Client>> create(boost::asio::io_context& io, std::vector<ModelConfig> models,
                                                ExchangeStore& store, RetryPolicy retry = {});
  // The same with another wire and another clock, for tests.
  static Result<std::unique_ptr<Client>> create(boost::asio::io_context& io, std::vector<ModelConfig> models,
                                                ExchangeStore& store, RetryPolicy retry,
                                                std::shared_ptr<HttpTransport> transport, std::shared_ptr<Clock> clock);
  virtual ~Client() = default;

  // The reply to `request`. Found in the store if it was ever answered; else sent, retried on 429, 5xx and connection
  // loss (Retry-After honoured), and stored before it is returned. A Reply with ok == false is an api_error: it was
  // given up, and `error` says why. An Error means that its trajectory cannot go on: the store failed or holds another
  // request, nothing may be spent and there is no stored reply (ErrorKind::budget), a recording lacks the exchange or
  // its prompt lacks the required text, or the model is stopped: its server refused key, payment or model (401, 402,
  // 403, 404), redirects (3xx) or could not be reached at all. A stopped model is sent nothing any more; its stored
  // replies are still found.
  virtual boost::asio::awaitable<Result<Reply>> complete(Request request) = 0;
  virtual const Counters& counters() const = 0;
};

}  // namespace anneal::llm
