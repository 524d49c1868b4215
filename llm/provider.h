// One configured model as the client sees it: something that answers.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <memory>
#include <optional>
#include <string>

#include "async/clock.h"
#include "async/result.h"
#include "llm/client.h"
#include "llm/http.h"

namespace anneal::llm {

struct Answer {
  Reply reply;
  // Set when this call cannot be had as things are; `reply` then says the same with ok == false.
  std::optional<Error> fatal;
  bool stops_model = false;  // and no other call of this model will fare better
};

class Provider {
 public:
  virtual ~Provider() = default;
  // Sends `request`, whose sampling is already complete, and tries again as its form demands; `counters` (not null)
  // outlives the call. Throws only when cancelled.
  virtual boost::asio::awaitable<Answer> answer(Request request, Counters* counters) = 0;
};

// `api: openai` (chat.h). Checks the URL and reads the key; errors as Client::create.
Result<void> check_chat_model(const ModelConfig& config, std::string& key);
Result<std::unique_ptr<Provider>> make_chat_provider(ModelConfig config, RetryPolicy retry,
                                                     std::shared_ptr<HttpTransport> transport,
                                                     std::shared_ptr<Clock> clock);

// `api: replay` (recording.h). Reads the recording; errors as Client::create.
Result<std::unique_ptr<Provider>> make_replay_provider(ModelConfig config);

}  // namespace anneal::llm
