#include "llm/client.h"

#include <boost/asio/this_coro.hpp>
#include <map>
#include <optional>
#include <utility>

#include "async/clock.h"
#include "async/semaphore.h"
#include "llm/curl_transport.h"
#include "llm/provider.h"

namespace anneal::llm {

namespace asio = boost::asio;

namespace {

struct Model {
  Model(ModelConfig c, std::unique_ptr<Provider> p, asio::any_io_executor executor)
      : config(std::move(c)), provider(std::move(p)), permits(std::move(executor), config.limits.concurrency) {}

  // The model string that decides the answer; a recording needs none.
  const std::string& served_model() const { return config.model.empty() ? config.name : config.model; }

  ModelConfig config;
  std::unique_ptr<Provider> provider;
  Semaphore permits;
  std::optional<Error> stopped;  // why no further request is sent
};

Sampling with_defaults(Sampling asked, const Sampling& defaults) {
  if (!asked.temperature) asked.temperature = defaults.temperature;
  if (!asked.top_p) asked.top_p = defaults.top_p;
  if (!asked.max_tokens) asked.max_tokens = defaults.max_tokens;
  if (!asked.seed) asked.seed = defaults.seed;
  return asked;
}

class ClientOfModels final : public Client {
 public:
  ClientOfModels(std::map<std::string, std::unique_ptr<Model>> models, ExchangeStore& store)
      : models_(std::move(models)), store_(store) {}

  asio::awaitable<Result<Reply>> complete(Request request) override {
    const auto found = models_.find(request.model);
    if (found == models_.end()) {
      co_return fail(ErrorKind::bad_input, "No model \"" + request.model + "\" is configured.");
    }
    Model& model = *found->second;
    request.sampling = with_defaults(request.sampling, model.config.sampling);
    const std::string hash = request_sha256(request, model.served_model());

    Result<std::optional<Reply>> stored = co_await store_.find_reply(request.id, hash);
    if (!stored) co_return tl::unexpected<Error>(stored.error());
    if (*stored) {
      ++counters_.from_store;
      co_return std::move(**stored);
    }
    const auto spent = [&request] { return request.may_spend && !request.may_spend(); };
    if (spent()) co_return fail(ErrorKind::budget, "A budget is spent.");

    if (model.stopped) co_return tl::unexpected<Error>(*model.stopped);
    const Semaphore::Permit permit = co_await model.permits.acquire();
    if (model.stopped) co_return tl::unexpected<Error>(*model.stopped);
    if (spent()) co_return fail(ErrorKind::budget, "A budget is spent.");
    Result<void> begun = co_await store_.begin_call(request, hash);
    if (!begun) co_return tl::unexpected<Error>(begun.error());
    Answer answer = co_await send(&model, request);
    // A call that is cancelled above stays begun in the store: nobody knows whether it was answered. One that was
    // answered has been paid for, so it is kept even if cancellation arrives now.
    const bool throws = co_await asio::this_coro::throw_if_cancelled();
    co_await asio::this_coro::throw_if_cancelled(false);
    if (answer.fatal && answer.stops_model && !model.stopped) model.stopped = answer.fatal;
    Result<void> finished = co_await store_.finish_call(request.id, answer.reply);
    co_await asio::this_coro::throw_if_cancelled(throws);
    if (!finished) co_return tl::unexpected<Error>(finished.error());
    if (answer.fatal) co_return tl::unexpected<Error>(*answer.fatal);
    count(answer.reply);
    co_return std::move(answer.reply);
  }

  const Counters& counters() const override { return counters_; }

 private:
  struct InFlight {
    explicit InFlight(int* n) : count(n) { ++*count; }
    ~InFlight() { --*count; }
    InFlight(const InFlight&) = delete;
    InFlight& operator=(const InFlight&) = delete;
    int* count;
  };

  asio::awaitable<Answer> send(Model* model, Request request) {
    const InFlight in_flight(&counters_.in_flight);
    Answer answer = co_await model->provider->answer(std::move(request), &counters_);
    if (answer.reply.ok && answer.reply.served_model.empty()) answer.reply.served_model = model->served_model();
    co_return answer;
  }

  void count(const Reply& reply) {
    if (!reply.ok) return;
    ++counters_.calls;
    counters_.prompt_tokens += reply.usage.prompt_tokens.value_or(0);
    counters_.completion_tokens += reply.usage.completion_tokens.value_or(0);
  }

  std::map<std::string, std::unique_ptr<Model>> models_;
  ExchangeStore& store_;
  Counters counters_;
};

}  // namespace

Result<void> check_model(const ModelConfig& config) {
  if (config.api == "openai") {
    std::string key;
    return check_chat_model(config, key);
  }
  if (config.api == "replay") {
    if (auto provider = make_replay_provider(config); !provider) return tl::unexpected<Error>(provider.error());
  }
  return {};
}

Result<std::unique_ptr<Client>> Client::create(asio::io_context& io, std::vector<ModelConfig> models,
                                               ExchangeStore& store, RetryPolicy retry) {
  return create(io, std::move(models), store, retry, make_curl_transport(io.get_executor()),
                std::make_shared<SystemClock>());
}

Result<std::unique_ptr<Client>> Client::create(asio::io_context& io, std::vector<ModelConfig> models,
                                               ExchangeStore& store, RetryPolicy retry,
                                               std::shared_ptr<HttpTransport> transport, std::shared_ptr<Clock> clock) {
  std::map<std::string, std::unique_ptr<Model>> made;
  for (ModelConfig& config : models) {
    if (made.count(config.name) != 0) {
      return fail(ErrorKind::bad_input, "Model " + config.name + " is configured twice.");
    }
    if (config.limits.concurrency < 1) {
      return fail(ErrorKind::bad_input, "Model " + config.name + ": limits.concurrency must be at least 1.");
    }
    Result<std::unique_ptr<Provider>> provider =
        fail(ErrorKind::bad_input,
             "Model " + config.name + ": unknown api \"" + config.api + "\"; this version knows openai and replay.");
    if (config.api == "openai") provider = make_chat_provider(config, retry, transport, clock);
    if (config.api == "replay") provider = make_replay_provider(config);
    if (!provider) return tl::unexpected<Error>(provider.error());
    std::string name = config.name;
    made.emplace(std::move(name), std::make_unique<Model>(std::move(config), std::move(*provider), io.get_executor()));
  }
  return std::make_unique<ClientOfModels>(std::move(made), store);
}

}  // namespace anneal::llm
