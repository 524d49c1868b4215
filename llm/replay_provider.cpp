#include <spdlog/spdlog.h>

#include <utility>

#include "llm/provider.h"
#include "llm/recording.h"

namespace anneal::llm {

namespace {

class ReplayProvider final : public Provider {
 public:
  explicit ReplayProvider(Recording recording) : recording_(std::move(recording)) {}

  boost::asio::awaitable<Answer> answer(Request request, Counters*) override {
    Answer answer;
    bool changed = false;
    Result<Reply> reply = recording_.reply_to(request.place, request.messages, &changed);
    if (!reply) {
      answer.reply.error = reply.error().message;
      answer.fatal = reply.error();
      co_return answer;
    }
    if (changed && !std::exchange(warned_, true)) {
      spdlog::warn("{}: the prompt for {} is not the one that was recorded; later differences are not reported",
                   recording_.file().string(), describe(request.place));
    }
    answer.reply = std::move(*reply);
    co_return answer;
  }

 private:
  Recording recording_;
  bool warned_ = false;
};

}  // namespace

Result<std::unique_ptr<Provider>> make_replay_provider(ModelConfig config) {
  if (config.from.empty()) {
    return fail(ErrorKind::bad_input, "Model " + config.name + ": `from` must name the recording to replay.");
  }
  Result<Recording> recording = Recording::load(config.from);
  if (!recording) return tl::unexpected<Error>(recording.error());
  return std::make_unique<ReplayProvider>(std::move(*recording));
}

}  // namespace anneal::llm
