#include <cstdlib>
#include <random>
#include <utility>

#include "llm/chat.h"
#include "llm/provider.h"
#include "llm/recording.h"
#include "llm/retry.h"
#include "llm/url.h"

namespace anneal::llm {

namespace asio = boost::asio;

namespace {

// What one HTTP exchange came to.
struct Attempt {
  std::optional<Reply> reply;
  std::string problem;  // when there is no reply
  int status = 0;
  bool retry = false;
  bool fatal = false;                     // when it is not tried again: no request of this model will fare better
  ErrorKind kind = ErrorKind::bad_input;  // when fatal
  std::optional<std::chrono::milliseconds> retry_after;
};

// "7 s", rounded up.
std::string seconds_text(std::chrono::milliseconds time) { return std::to_string((time.count() + 999) / 1000) + " s"; }

// Counted while it lives.
class BackingOff {
 public:
  BackingOff(Counters* counters, std::string because) : counters_(counters) {
    ++counters_->backing_off;
    counters_->backing_off_because = std::move(because);
  }
  ~BackingOff() { --counters_->backing_off; }
  BackingOff(const BackingOff&) = delete;
  BackingOff& operator=(const BackingOff&) = delete;

 private:
  Counters* counters_;
};

class ChatProvider final : public Provider {
 public:
  ChatProvider(ModelConfig config, std::string key, RetryPolicy retry, std::shared_ptr<HttpTransport> transport,
               std::shared_ptr<Clock> clock)
      : config_(std::move(config)),
        key_(std::move(key)),
        retry_(retry),
        transport_(std::move(transport)),
        clock_(std::move(clock)),
        random_(std::random_device()()) {
    url_ = config_.base_url;
    while (!url_.empty() && url_.back() == '/') url_.pop_back();
    url_ += "/chat/completions";
  }

  asio::awaitable<Answer> answer(Request request, Counters* counters) override {
    Answer answer;
    const std::string body = chat_body(request.messages, request.sampling, config_.model);
    for (int number = 1;; ++number) {
      const auto start = clock_->now();
      HttpRequest http = http_request(request.place, body);
      Result<HttpResponse> response = co_await transport_->post(std::move(http));
      const std::chrono::duration<double> latency = clock_->now() - start;
      Attempt attempt = judge(response);
      if (attempt.reply) {
        answer.reply = std::move(*attempt.reply);
        answer.reply.http_status = attempt.status;
        answer.reply.attempts = number;
        answer.reply.latency_seconds = latency.count();
        co_return answer;
      }
      const bool again = attempt.retry && number < retry_.max_attempts;
      if (!again) {
        std::string said = "model " + config_.name + ": " + attempt.problem;
        if (number > 1) said += " (given up after " + std::to_string(number) + " attempts)";
        answer.reply.error = said;
        answer.reply.http_status = attempt.status;
        answer.reply.attempts = number;
        if (attempt.fatal) {
          answer.fatal = Error{attempt.kind, "M" + said.substr(1)};
          answer.stops_model = true;
        }
        co_return answer;
      }
      ++counters->retries;
      const auto delay = retry_delay(retry_, number, attempt.retry_after, random_);
      std::string because = "model " + config_.name + ": " + attempt.problem;
      if (attempt.retry_after) because += "; the server asks for " + seconds_text(*attempt.retry_after);
      const BackingOff waiting(counters, because + "; sent again in " + seconds_text(delay));
      co_await clock_->sleep_for(delay);
    }
  }

 private:
  HttpRequest http_request(const CallPlace& place, const std::string& body) const {
    HttpRequest http;
    http.url = url_;
    http.headers.push_back("Content-Type: application/json");
    http.headers.push_back("Accept: application/json");
    if (!key_.empty()) http.headers.push_back("Authorization: Bearer " + key_);
    // For servers that replay a recording (llm_sim). No provider is told what the experiment looks like.
    if (is_loopback(url_)) http.headers.push_back("X-Anneal-Place: " + place_key(place));
    http.body = body;
    http.timeout = retry_.request_timeout;
    return http;
  }

  // " to URL", or nothing where the server does not say where to.
  std::string redirect_target(const std::string& location) const {
    const std::string shown = one_line(without_key(without_secrets(location), key_), 120);
    return shown.empty() ? "" : " to " + shown;
  }

  Attempt judge(const Result<HttpResponse>& response) const {
    Attempt attempt;
    if (!response) {
      attempt.problem = without_key(response.error().message, key_);
      attempt.kind = response.error().kind;
      attempt.retry =
          attempt.kind == ErrorKind::io || attempt.kind == ErrorKind::timeout || attempt.kind == ErrorKind::unreachable;
      attempt.fatal = attempt.kind == ErrorKind::missing || attempt.kind == ErrorKind::unreachable;
      return attempt;
    }
    attempt.status = response->status;
    // A server that echoes the key must not get it into a log or a store: as it stands in the body, nor as JSON escapes
    // it.
    const std::string body = without_escaped_key(response->body, key_);
    if (response->status == 200) {
      auto parsed = parse_chat_reply(body);
      if (parsed) {
        Reply& reply = attempt.reply.emplace(std::move(*parsed));
        for (std::string* text : {&reply.text, &reply.reasoning, &reply.finish_reason, &reply.served_model}) {
          *text = without_key(std::move(*text), key_);
        }
        return attempt;
      }
      attempt.problem = without_key(parsed.error().message, key_);
      attempt.retry = parsed.error().cut_off || is_retryable(parsed.error().status);
      return attempt;
    }
    attempt.problem = "HTTP " + std::to_string(response->status) + " from " + url_ + ": " + server_message(body);
    if (response->status >= 300 && response->status <= 399) {
      attempt.problem = "HTTP " + std::to_string(response->status) + " from " + url_ + ": it redirects" +
                        redirect_target(response->location) + ", which is not followed; set base_url to the API itself";
    } else if (response->status == 404) {
      attempt.problem += " (base_url is " + config_.base_url + ", the model '" + config_.model + "')";
    }
    attempt.retry = is_retryable(response->status);
    attempt.fatal = is_fatal(response->status);
    if (response->status == 401 || response->status == 403) {
      attempt.kind = ErrorKind::missing;
      if (!config_.key_env.empty()) attempt.problem += " (the key is the value of " + config_.key_env + ")";
    }
    attempt.retry_after = parse_retry_after(response->retry_after, clock_->wall());
    return attempt;
  }

  ModelConfig config_;
  std::string key_;
  std::string url_;
  RetryPolicy retry_;
  std::shared_ptr<HttpTransport> transport_;
  std::shared_ptr<Clock> clock_;
  std::mt19937_64 random_;
};

}  // namespace

// Fills `key`.
Result<void> check_chat_model(const ModelConfig& config, std::string& key) {
  const auto at = [&config](const std::string& place) {
    return place.empty() ? "Model " + config.name + ": " : place + ": model '" + config.name + "': ";
  };
  const Result<Url> url = parse_url(config.base_url);
  if (!url) return fail(ErrorKind::bad_input, at(config.base_url_place) + "base_url: " + url.error().message);
  if (url->scheme == "http" && !config.allow_plain_http && !is_loopback(config.base_url)) {
    return fail(ErrorKind::bad_input, at(config.base_url_place) + "base_url " + config.base_url +
                                          " would send prompts and key unencrypted; use https://, or set "
                                          "allow_plain_http: true.");
  }
  if (config.model.empty()) return fail(ErrorKind::bad_input, at("") + "`model` is missing.");
  if (config.key_env.empty()) return {};
  const char* value = std::getenv(config.key_env.c_str());
  if (value == nullptr || *value == '\0') {
    return fail(ErrorKind::missing,
                at(config.key_env_place) + "set the environment variable " + config.key_env + " to its API key.");
  }
  key = value;
  if (key.find_first_of("\r\n") != std::string::npos) {
    return fail(ErrorKind::missing,
                at(config.key_env_place) + "the value of " + config.key_env + " has a line break in it.");
  }
  return {};
}

Result<std::unique_ptr<Provider>> make_chat_provider(ModelConfig config, RetryPolicy retry,
                                                     std::shared_ptr<HttpTransport> transport,
                                                     std::shared_ptr<Clock> clock) {
  std::string key;
  if (const Result<void> sound = check_chat_model(config, key); !sound) return tl::unexpected<Error>(sound.error());
  return std::make_unique<ChatProvider>(std::move(config), std::move(key), retry, std::move(transport),
                                        std::move(clock));
}

}  // namespace anneal::llm
