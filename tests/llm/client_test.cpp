#include "llm/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <cstdlib>
#include <deque>
#include <nlohmann/json.hpp>

#include "async/deadline.h"
#include "async/manual_clock.h"
#include "async/nursery.h"
#include "llm/http.h"
#include "llm/recording.h"
#include "tests/async/run_on_loop.h"
#include "tests/llm/local_server.h"
#include "tests/llm/memory_store.h"
#include "tests/temporary_folder.h"

namespace anneal::llm {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using test::chat_response;
using test::error_response;
using test::LocalServer;
using test::MemoryStore;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Answers from a list and remembers what was sent.
class FakeTransport final : public HttpTransport {
 public:
  asio::awaitable<Result<HttpResponse>> post(HttpRequest request) override {
    sent.push_back(std::move(request));
    Result<HttpResponse> response = answers.front();
    if (answers.size() > 1) answers.pop_front();
    co_return response;
  }
  std::deque<Result<HttpResponse>> answers;
  std::vector<HttpRequest> sent;
};

HttpResponse response_of(const LocalServer::Response& scripted, const std::string& retry_after = "") {
  HttpResponse response;
  response.status = scripted.status;
  response.body = scripted.body;
  response.retry_after = retry_after;
  return response;
}

HttpResponse good(const std::string& text) { return response_of(chat_response(text)); }

ModelConfig model_at(const std::string& url) {
  ModelConfig config;
  config.name = "m";
  config.api = "openai";
  config.base_url = url;
  config.model = "scripted";
  return config;
}

Request request_with(const std::string& id) {
  Request request;
  request.id = id;
  request.model = "m";
  request.place.task = "relu";
  request.place.method = "geak";
  request.place.role = "generator";
  request.messages = {{"user", "write relu"}};
  return request;
}

// A client on a scripted wire and a clock that does not wait.
struct Scripted {
  explicit Scripted(std::deque<Result<HttpResponse>> answers, ModelConfig config = model_at("https://api.example/v1")) {
    transport->answers = std::move(answers);
    auto made = Client::create(io, {config}, store, RetryPolicy(), transport, clock);
    if (!made) throw std::runtime_error(made.error().message);
    client = std::move(*made);
  }
  Result<Reply> complete(const std::string& id = "r1") { return run_on(io, client->complete(request_with(id))); }

  asio::io_context io;
  MemoryStore store;
  std::shared_ptr<FakeTransport> transport = std::make_shared<FakeTransport>();
  std::shared_ptr<ManualClock> clock = std::make_shared<ManualClock>();
  std::unique_ptr<Client> client;
};

TEST(Client, StoresBeforeItSendsAndBeforeItReturns) {
  Scripted s({good("code")});
  const auto reply = s.complete();
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->text, "code");
  EXPECT_EQ(reply->http_status, 200);
  EXPECT_EQ(reply->attempts, 1);
  EXPECT_EQ(reply->served_model, "scripted-1");
  EXPECT_THAT(s.store.log, ElementsAre("find r1", "begin r1", "finish ok r1"));
  EXPECT_EQ(s.client->counters().calls, 1);
  EXPECT_EQ(s.client->counters().prompt_tokens, 100);
  EXPECT_EQ(s.client->counters().completion_tokens, 50);
  EXPECT_EQ(s.client->counters().in_flight, 0);
}

TEST(Client, NeverAsksTwiceForAStoredReply) {
  Scripted s({good("code")});
  ASSERT_TRUE(s.complete());
  const auto again = s.complete();
  ASSERT_TRUE(again);
  EXPECT_EQ(again->text, "code");
  EXPECT_EQ(s.transport->sent.size(), 1u);
  EXPECT_EQ(s.client->counters().from_store, 1);
}

TEST(Client, SendsNothingWhenTheStoreFails) {
  Scripted s({good("code")});
  s.store.broken = true;
  const auto reply = s.complete();
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().message, "disk full");
  EXPECT_TRUE(s.transport->sent.empty());
}

TEST(Client, RetriesRateLimitsErrorsAndLostConnections) {
  Scripted s({response_of(error_response(429, "slow"), "7"), response_of(error_response(500, "oops")),
              fail(ErrorKind::io, "reset"), fail(ErrorKind::timeout, "late"), good("code")});
  const auto reply = s.complete();
  ASSERT_TRUE(reply);
  EXPECT_TRUE(reply->ok);
  EXPECT_EQ(reply->attempts, 5);
  EXPECT_EQ(s.client->counters().retries, 4);
  EXPECT_EQ(s.client->counters().backing_off, 0);
  EXPECT_THAT(s.client->counters().backing_off_because, StartsWith("model m: "));
  EXPECT_THAT(s.client->counters().backing_off_because, HasSubstr("; sent again in "));
  ASSERT_EQ(s.clock->slept().size(), 4u);
  EXPECT_GE(s.clock->slept()[0], 7s);
  EXPECT_LE(s.clock->slept()[0], 8s);
  EXPECT_LE(s.clock->slept()[1], 1s);
  EXPECT_LE(s.clock->slept()[2], 2s);
  EXPECT_THAT(s.store.log, ElementsAre("find r1", "begin r1", "finish ok r1"));
}

TEST(Client, GivesUpAfterItsAttemptsAndSaysWhy) {
  Scripted s({response_of(error_response(503, "overloaded"))});
  const auto reply = s.complete();
  ASSERT_TRUE(reply);
  EXPECT_FALSE(reply->ok);
  EXPECT_EQ(reply->attempts, 6);
  EXPECT_EQ(reply->http_status, 503);
  EXPECT_THAT(reply->error, HasSubstr("503"));
  EXPECT_THAT(reply->error, HasSubstr("overloaded"));
  EXPECT_THAT(s.store.log, ElementsAre("find r1", "begin r1", "finish failed r1"));
  // It was never answered, so the next run asks again.
  s.transport->answers = {good("code")};
  const auto again = s.complete();
  ASSERT_TRUE(again);
  EXPECT_TRUE(again->ok);
}

TEST(Client, ARefusedRequestCostsItsCallAlone) {
  Scripted s({response_of(error_response(400, "This prompt is too long")), good("code")});
  const auto refused = s.complete("r1");
  ASSERT_TRUE(refused) << refused.error().message;
  EXPECT_FALSE(refused->ok);
  EXPECT_EQ(refused->http_status, 400);
  EXPECT_THAT(refused->error, HasSubstr("This prompt is too long"));
  const auto next = s.complete("r2");
  ASSERT_TRUE(next);
  EXPECT_TRUE(next->ok);
}

TEST(Client, AModelThatCannotBeReachedIsSentNothingMore) {
  Scripted s({good("stored"), fail(ErrorKind::unreachable, "api.example: no route")});
  ASSERT_TRUE(s.complete("r1"));
  const auto lost = s.complete("r2");
  ASSERT_FALSE(lost);
  EXPECT_THAT(lost.error().message, HasSubstr("no route"));
  EXPECT_THAT(lost.error().message, HasSubstr("given up after 6 attempts"));
  EXPECT_FALSE(s.complete("r3"));
  EXPECT_EQ(s.transport->sent.size(), 1u + 6u);
  const auto stored = s.complete("r1");
  ASSERT_TRUE(stored);
  EXPECT_EQ(stored->text, "stored");
}

TEST(Client, EndsTheExperimentWhenKeyOrModelIsRefused) {
  for (const int status : {401, 402, 403, 404}) {
    Scripted s({response_of(error_response(status, "Model `scripted` is gone"))});
    const auto reply = s.complete();
    ASSERT_FALSE(reply);
    EXPECT_THAT(reply.error().message, HasSubstr("Model m: HTTP " + std::to_string(status)));
    EXPECT_THAT(reply.error().message, HasSubstr("Model `scripted` is gone"));
    EXPECT_EQ(s.transport->sent.size(), 1u);
    EXPECT_THAT(s.store.log, ElementsAre("find r1", "begin r1", "finish failed r1"));
    EXPECT_FALSE(s.complete("r2"));
    EXPECT_EQ(s.transport->sent.size(), 1u) << "a refused model is not asked again";
  }
}

TEST(Client, SaysWhereARedirectLeadsAndAsksOnce) {
  HttpResponse moved;
  moved.status = 301;
  moved.location = "https://user:pw@api.example/v2/chat/completions?token=t0psecret";
  moved.body = "<html>Moved</html>";
  Scripted s({moved});
  const auto reply = s.complete();
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().message,
            "Model m: HTTP 301 from https://api.example/v1/chat/completions: it redirects to "
            "...@api.example/v2/chat/completions, which is not followed; set base_url to the API itself");
  EXPECT_FALSE(s.complete("r2"));
  EXPECT_EQ(s.transport->sent.size(), 1u);
}

TEST(Client, SaysHowLongAServerAsksToWaitAndHowLongItDoes) {
  Scripted s({response_of(error_response(429, "tomorrow"), "86400"), good("code")});
  ASSERT_TRUE(s.complete());
  EXPECT_THAT(s.client->counters().backing_off_because,
              HasSubstr("tomorrow; the server asks for 86400 s; sent again in 60"));
}

TEST(Client, CallsUnusableResponsesApiErrors) {
  for (const char* body :
       {"<html>hello</html>", R"({"choices": []})", R"({"error": {"message": "no"}})", "[]",
        R"({"choices": [{"message": {"content": "\ud800"}}]})",
        "{\"choices\": [{\"message\": {\"content\": \"\xff\"}}]}", R"({"choices": [{"message": {"content": 5}}]})"}) {
    HttpResponse response;
    response.status = 200;
    response.body = body;
    Scripted s({response});
    const auto reply = s.complete();
    ASSERT_TRUE(reply);
    EXPECT_FALSE(reply->ok);
    EXPECT_THAT(reply->error, HasSubstr("model m: "));
    EXPECT_EQ(reply->attempts, 1) << body;
  }
}

TEST(Client, AsksAgainWhenTheBodyStopsInTheMiddle) {
  HttpResponse cut = good("code");
  cut.body.resize(cut.body.size() / 2);
  Scripted s({cut, good("code")});
  const auto reply = s.complete();
  ASSERT_TRUE(reply);
  EXPECT_TRUE(reply->ok);
  EXPECT_EQ(reply->attempts, 2);
}

TEST(Client, SendsTheKeyAndLetsItIntoNoText) {
  const std::string key = "sk-very-secret-123";
  ::setenv("ANNEAL_TEST_KEY", key.c_str(), 1);
  ModelConfig config = model_at("https://api.example/v1/");
  config.key_env = "ANNEAL_TEST_KEY";
  config.sampling.temperature = 0.25;
  Scripted s({response_of(error_response(401, "Incorrect API key " + key))}, config);
  const auto refused = s.complete("r1");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, Not(HasSubstr(key)));
  EXPECT_THAT(refused.error().message, HasSubstr("[key]"));
  EXPECT_THAT(refused.error().message, HasSubstr("ANNEAL_TEST_KEY"));
  EXPECT_THAT(s.store.replies["r1"].error, Not(HasSubstr(key)));
  Scripted echo({good("you sent " + key)}, config);
  const auto echoed = echo.complete("r2");
  ASSERT_TRUE(echoed);
  EXPECT_EQ(echoed->text, "you sent [key]");
  // JSON may spell it otherwise.
  HttpResponse spelt = good("you sent KEY"), refusing = response_of(error_response(400, "Incorrect API key KEY"));
  for (HttpResponse* one : {&spelt, &refusing}) one->body.replace(one->body.find("KEY"), 3, "\\u0073k-very-secret-123");
  Scripted escaped({spelt, refusing}, config);
  const auto spelt_out = escaped.complete("r3");
  ASSERT_TRUE(spelt_out);
  EXPECT_EQ(spelt_out->text, "you sent [key]");
  static_cast<void>(escaped.complete("r4"));
  EXPECT_THAT(escaped.store.replies["r4"].error, HasSubstr("Incorrect API key [key]"));

  const HttpRequest& sent = s.transport->sent[0];
  EXPECT_EQ(sent.url, "https://api.example/v1/chat/completions");
  EXPECT_THAT(sent.headers, ::testing::Contains("Authorization: Bearer " + key));
  for (const auto& header : sent.headers) EXPECT_THAT(header, Not(HasSubstr("X-Anneal")));
  EXPECT_EQ(nlohmann::json::parse(sent.body)["temperature"], 0.25);
}

TEST(Client, RefusesWhatCannotWorkBeforeTheFirstCall) {
  asio::io_context io;
  MemoryStore store;
  ::unsetenv("ANNEAL_TEST_NO_KEY");
  const auto error_of = [&](ModelConfig config) {
    auto made = Client::create(io, {config}, store);
    return made ? Error{ErrorKind::internal, "no error"} : made.error();
  };
  ModelConfig config = model_at("https://api.example/v1");
  config.key_env = "ANNEAL_TEST_NO_KEY";
  EXPECT_EQ(error_of(config).kind, ErrorKind::missing);
  EXPECT_THAT(error_of(config).message, HasSubstr("ANNEAL_TEST_NO_KEY"));

  config = model_at("http://api.example/v1");
  EXPECT_EQ(error_of(config).kind, ErrorKind::bad_input);
  EXPECT_THAT(error_of(config).message, HasSubstr("allow_plain_http"));
  config.allow_plain_http = true;
  EXPECT_EQ(error_of(config).message, "no error");

  config = model_at("https://api.example/v1");
  config.api = "openapi";
  EXPECT_THAT(error_of(config).message, HasSubstr("openapi"));
  config = model_at("not a url");
  EXPECT_EQ(error_of(config).kind, ErrorKind::bad_input);
  config.api = "replay";
  config.from = "/nonexistent.jsonl";
  EXPECT_THAT(error_of(config).message, HasSubstr("/nonexistent.jsonl"));
}

TEST(Client, NamesAModelThatIsNotConfigured) {
  Scripted s({good("code")});
  Request request = request_with("r1");
  request.model = "other";
  const auto reply = run_on(s.io, s.client->complete(request));
  ASSERT_FALSE(reply);
  EXPECT_THAT(reply.error().message, HasSubstr("other"));
}

TEST(Client, KeepsToTheConcurrencyOfTheModel) {
  LocalServer::Response slow = chat_response("code");
  slow.delay = 50ms;
  LocalServer server(LocalServer::script({slow}));
  asio::io_context io;
  MemoryStore store;
  ModelConfig config = model_at(server.base_url());
  config.limits.concurrency = 3;
  auto client = Client::create(io, {config}, store);
  ASSERT_TRUE(client);
  int ok = 0;
  for (int i = 0; i < 15; ++i) {
    asio::co_spawn(io, (*client)->complete(request_with("r" + std::to_string(i))),
                   [&](std::exception_ptr, Result<Reply> reply) { ok += reply && reply->ok; });
  }
  io.run();
  EXPECT_EQ(ok, 15);
  EXPECT_LE(server.peak(), 3);
  EXPECT_GE(server.peak(), 2);
}

TEST(Client, SendsNothingMoreWhenTheBudgetWasSpentWhileACallWaited) {
  LocalServer::Response slow = chat_response("code");
  slow.delay = 20ms;
  LocalServer server(LocalServer::script({slow}));
  asio::io_context io;
  MemoryStore store;
  ModelConfig config = model_at(server.base_url());
  config.limits.concurrency = 1;
  auto client = Client::create(io, {config}, store);
  ASSERT_TRUE(client);
  int ok = 0, refused = 0;
  for (int i = 0; i < 10; ++i) {
    Request request = request_with("r" + std::to_string(i));
    request.may_spend = [&ok] { return ok < 2; };
    asio::co_spawn(io, (*client)->complete(std::move(request)), [&](std::exception_ptr, Result<Reply> reply) {
      ok += reply && reply->ok;
      refused += !reply && reply.error().kind == ErrorKind::budget;
    });
  }
  io.run();
  EXPECT_EQ(ok + refused, 10);
  EXPECT_LE(server.requests().size(), 3u) << "one more may have begun before the second was counted";
}

TEST(Client, SurvivesARoughServer) {
  LocalServer::Response dropped = chat_response("x");
  dropped.fault = LocalServer::Fault::drop;
  LocalServer::Response half = chat_response("x");
  half.fault = LocalServer::Fault::half_body;
  LocalServer server(LocalServer::script({error_response(429, "slow", {"Retry-After: 0"}), dropped, half,
                                          error_response(500, "x"), chat_response("code")}));
  asio::io_context io;
  MemoryStore store;
  RetryPolicy retry;
  retry.first_delay = 1ms;
  retry.max_delay = 5ms;
  auto client = Client::create(io, {model_at(server.base_url())}, store, retry);
  ASSERT_TRUE(client);
  const auto reply = run_on(io, (*client)->complete(request_with("r1")));
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->text, "code");
  // libcurl itself resends on a fresh connection when a reused one is dropped without a byte.
  EXPECT_EQ(reply->attempts, 4);
  EXPECT_EQ(server.requests().size(), 5u);
  EXPECT_EQ(server.requests().back().headers.at("x-anneal-place"), "relu|geak|generator|0|0|0");
}

TEST(Client, LeavesACancelledCallBegun) {
  LocalServer::Response hang;
  hang.fault = LocalServer::Fault::hang;
  LocalServer server(LocalServer::script({hang}));
  asio::io_context io;
  MemoryStore store;
  auto client = Client::create(io, {model_at(server.base_url())}, store);
  ASSERT_TRUE(client);
  const auto reply = run_on(io, with_deadline((*client)->complete(request_with("r1")), 50ms));
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().kind, ErrorKind::timeout);
  EXPECT_THAT(store.log, ElementsAre("find r1", "begin r1"));
  EXPECT_EQ((*client)->counters().in_flight, 0);
}

TEST(Client, ReplaysARecording) {
  const test::TemporaryFolder folder;
  const auto file =
      folder.write("recording.jsonl",
                   R"({"task": "relu", "method": "geak", "role": "generator", "iteration": 0, "slot": 0, "sample": 0, )"
                   R"("must_contain": ["write"], "reply": {"text": "recorded"}})");
  asio::io_context io;
  MemoryStore store;
  ModelConfig config;
  config.name = "m";
  config.api = "replay";
  config.from = file;
  auto client = Client::create(io, {config}, store);
  ASSERT_TRUE(client) << client.error().message;
  const auto reply = run_on(io, (*client)->complete(request_with("r1")));
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->text, "recorded");
  EXPECT_EQ(reply->attempts, 0);
  EXPECT_EQ(reply->served_model, "m");
  Request unknown = request_with("r2");
  unknown.place.iteration = 9;
  const auto missing = run_on(io, (*client)->complete(unknown));
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::internal);
  EXPECT_THAT(missing.error().message, HasSubstr("iteration 9"));
}

}  // namespace
}  // namespace anneal::llm
