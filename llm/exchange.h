// One request to a model and what came back: plain values that the client produces and the store keeps.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "async/result.h"

namespace anneal::llm {

struct Message {
  std::string role;  // system | user | assistant
  std::string content;
};

struct Sampling {
  std::optional<double> temperature, top_p;
  std::optional<int> max_tokens;
  std::optional<std::int64_t> seed;
};

// Where in the experiment a call stands. (task, method, role, iteration, slot, sample) keys a recording.
struct CallPlace {
  std::string task, method, role;  // role: generator | reflector | optimizer
  int iteration = 0;
  int slot = 0;
  int sample = 0;  // 0, or 1.. when a reply is asked for once more
  int seed = 0;    // the trajectory's seed index
};

struct Request {
  std::string id;          // UUIDv5 of the place within the experiment: the same after a restart
  std::string trajectory;  // its trajectory's id
  CallPlace place;
  std::string model;  // the name under `models:` in the configuration
  std::vector<Message> messages;
  Sampling sampling;
  // Asked before the request is sent, also after it has waited for its turn; false is an error of kind budget. Empty:
  // yes. A stored reply is found either way.
  std::function<bool()> may_spend;
};

struct Usage {
  std::optional<std::int64_t> prompt_tokens, completion_tokens, reasoning_tokens, cached_tokens;
};

struct Reply {
  bool ok = false;            // false: no reply of a model (api_error); then `error` says why
  std::string text;           // the visible answer
  std::string reasoning;      // reasoning_content where the server gives it
  std::string finish_reason;  // stop | length | content_filter | ...
  std::string served_model;   // the model string that the server returned
  Usage usage;
  int http_status = 0;         // of the last attempt; 0 when none answered or the reply is recorded
  int attempts = 0;            // HTTP requests sent for it, retries included; of a stored one, by all runs
  double latency_seconds = 0;  // of the attempt that answered
  std::string error;
};

// SHA-256 (hex) of everything that decides the answer: served model name, messages, sampling.
std::string request_sha256(const Request& request, const std::string& served_model);

// What the client needs of a store. Calls return when the row is durable.
class ExchangeStore {
 public:
  virtual ~ExchangeStore() = default;
  // The stored *ok* reply of this request id, if it ever answered. An error if the answered request had another hash:
  // then the configuration or a prompt changed under an existing experiment.
  virtual boost::asio::awaitable<Result<std::optional<Reply>>> find_reply(std::string request_id,
                                                                          std::string request_hash) = 0;
  // Before the request leaves.
  virtual boost::asio::awaitable<Result<void>> begin_call(Request request, std::string request_hash) = 0;
  // When the reply arrived or was given up, before anything acts on it.
  virtual boost::asio::awaitable<Result<void>> finish_call(std::string request_id, Reply reply) = 0;
};

}  // namespace anneal::llm
