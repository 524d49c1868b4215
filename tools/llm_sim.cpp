// llm_sim: a chat-completions server on 127.0.0.1 that answers from a recording, faults included. It stands in for a
// provider where the whole way over HTTP is to be tried without one: point base_url of an `api: openai` model at it.
#include <CLI/CLI.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "async/interrupt.h"
#include "llm/recording.h"
#include "tests/llm/local_server.h"

namespace {

using anneal::llm::Message;
using anneal::llm::Recording;
using anneal::test::LocalServer;
using nlohmann::json;

struct Faults {
  int fail_429 = 0;  // that many requests are refused first
  int drop = 0;      // then that many connections are dropped
  std::chrono::milliseconds delay{0};
};

std::vector<Message> messages_of(const std::string& body) {
  const json request = json::parse(body);
  std::vector<Message> messages;
  for (const json& message : request.at("messages")) {
    messages.push_back({message.at("role").get<std::string>(), message.at("content").get<std::string>()});
  }
  return messages;
}

// 404 and 400 end an experiment, so a mistake in a recording is seen at once.
LocalServer::Response answer(const Recording& recording, const LocalServer::Request& request) {
  const auto place = request.headers.find("x-anneal-place");
  if (place == request.headers.end()) {
    return anneal::test::error_response(400, "The request has no X-Anneal-Place header.");
  }
  const Recording::Entry* entry = recording.find(place->second);
  if (entry == nullptr) {
    return anneal::test::error_response(404, recording.file().string() + " has no reply for " + place->second + ".");
  }
  std::string prompt;
  try {
    prompt = anneal::llm::prompt_text(messages_of(request.body));
  } catch (const json::exception& error) {
    return anneal::test::error_response(400, std::string("The request is malformed: ") + error.what());
  }
  for (const std::string& text : entry->must_contain) {
    if (prompt.find(text) == std::string::npos) {
      return anneal::test::error_response(
          400, recording.file().string() + ":" + std::to_string(entry->line) + ": the prompt lacks \"" + text + "\".");
    }
  }
  const anneal::llm::Reply& reply = entry->reply;
  return anneal::test::chat_response(reply.text, reply.finish_reason,
                                     static_cast<int>(reply.usage.prompt_tokens.value_or(0)),
                                     static_cast<int>(reply.usage.completion_tokens.value_or(0)));
}

LocalServer::Handler handler(const Recording& recording, Faults faults) {
  return [&recording, faults](const LocalServer::Request& request) mutable {
    if (faults.fail_429 > 0) {
      --faults.fail_429;
      return anneal::test::error_response(429, "Too many requests.", {"Retry-After: 0"});
    }
    if (faults.drop > 0) {
      --faults.drop;
      LocalServer::Response dropped;
      dropped.fault = LocalServer::Fault::drop;
      return dropped;
    }
    LocalServer::Response response = answer(recording, request);
    response.delay = faults.delay;
    return response;
  };
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Answers chat completions on 127.0.0.1 from a recording.");
  std::string file;
  std::uint16_t port = 0;
  Faults faults;
  int delay = 0;
  app.add_option("--recording", file,
                 "JSONL file of replies, e.g. recordings/quickstart.jsonl (its form: recordings/README.md)")
      ->required();
  app.add_option("--port", port, "port to listen on; 0: a free one")->capture_default_str();
  app.add_option("--fail-429", faults.fail_429, "answer the first N requests with 429")->check(CLI::NonNegativeNumber);
  app.add_option("--drop", faults.drop, "then drop N connections without an answer")->check(CLI::NonNegativeNumber);
  app.add_option("--delay", delay, "wait that many milliseconds before each answer")->check(CLI::NonNegativeNumber);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  faults.delay = std::chrono::milliseconds(delay);

  const auto recording = Recording::load(file);
  if (!recording) {
    std::fprintf(stderr, "llm_sim: %s\n", recording.error().message.c_str());
    return recording.error().kind == anneal::ErrorKind::bad_input ? 2 : 3;
  }
  try {
    boost::asio::io_context io;
    const anneal::Interrupt interrupt(io.get_executor(), [] {});
    const LocalServer server(handler(*recording, faults), port);
    std::printf("%d\n", static_cast<int>(server.port()));
    std::fflush(stdout);
    io.run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "llm_sim: %s\n", error.what());
    return 3;
  }
  return 0;
}
