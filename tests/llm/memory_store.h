// An ExchangeStore in memory that remembers the order of what it was told.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "llm/exchange.h"

namespace anneal::test {

class MemoryStore final : public llm::ExchangeStore {
 public:
  boost::asio::awaitable<Result<std::optional<llm::Reply>>> find_reply(std::string id, std::string hash) override {
    log.push_back("find " + id);
    const auto begun = hashes.find(id);
    if (begun != hashes.end() && begun->second != hash) co_return fail(ErrorKind::bad_input, "another request");
    const auto found = replies.find(id);
    std::optional<llm::Reply> reply;
    if (found != replies.end() && found->second.ok) reply = found->second;
    co_return reply;
  }

  boost::asio::awaitable<Result<void>> begin_call(llm::Request request, std::string hash) override {
    log.push_back("begin " + request.id);
    if (broken) co_return fail(ErrorKind::io, "disk full");
    hashes[request.id] = hash;
    co_return Result<void>();
  }

  boost::asio::awaitable<Result<void>> finish_call(std::string id, llm::Reply reply) override {
    const std::string how = reply.ok ? "ok " : "failed ";
    log.push_back("finish " + how + id);
    replies[id] = reply;
    co_return Result<void>();
  }

  std::map<std::string, llm::Reply> replies;
  std::map<std::string, std::string> hashes;
  std::vector<std::string> log;
  bool broken = false;
};

}  // namespace anneal::test
