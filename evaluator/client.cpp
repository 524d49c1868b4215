#include "evaluator/client.h"

#include <fcntl.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/system/system_error.hpp>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "async/child_process.h"
#include "async/deadline.h"
#include "async/nursery.h"
#include "async/semaphore.h"
#include "async/sha256.h"
#include "evaluator/daemon_message.h"
#include "evaluator/protocol.h"

extern char** environ;

namespace anneal::evaluator {

namespace asio = boost::asio;
using asio::steady_timer;
using nlohmann::json;
using Socket = asio::local::stream_protocol::socket;
using namespace std::chrono_literals;

namespace {

// Ends the conversation with one daemon; caught by supervise().
struct ConnectionLost : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A request whose answer has not come yet. Lies in the frame of ask().
struct Waiting {
  explicit Waiting(asio::any_io_executor executor) : wake(std::move(executor)) {}
  std::string frame;
  std::string answer;  // the type of message that answers it
  int sent = 0;
  // Of the daemon that has it; none while no daemon does.
  steady_timer::time_point deadline = steady_timer::time_point::max();
  std::optional<Result<json>> result;
  steady_timer wake;
};

// The next frame. Throws ConnectionLost at the end of the stream and for what is no frame.
asio::awaitable<json> read_frame(Socket* socket) {
  boost::system::error_code error;
  std::array<char, frame_header_bytes> header{};
  co_await asio::async_read(*socket, asio::buffer(header), asio::redirect_error(asio::use_awaitable, error));
  if (error == asio::error::operation_aborted) throw boost::system::system_error(error);
  if (error) throw ConnectionLost("it closed the connection");
  const std::size_t size = decode_frame_length(header.data());
  if (size > max_frame_bytes) throw ConnectionLost("it sent a frame of " + std::to_string(size) + " bytes");
  std::string body(size, '\0');
  co_await asio::async_read(*socket, asio::buffer(body), asio::redirect_error(asio::use_awaitable, error));
  if (error == asio::error::operation_aborted) throw boost::system::system_error(error);
  if (error) throw ConnectionLost("it closed the connection in the middle of a frame");
  std::optional<json> message = message_of_frame(body);
  if (!message) throw ConnectionLost("it sent a frame that is not a JSON object");
  co_return std::move(*message);
}

// The kernel's failure, not the machine's: asked again it would be as long.
Verdict too_long(const EvaluationRequest& request, const std::string& suite, const DeviceFacts& facts) {
  Verdict verdict;
  verdict.task = request.task;
  verdict.category = request.category;
  verdict.suite = suite;
  verdict.code_sha256 = sha256_hex(request.code);
  verdict.device = facts.device;
  verdict.device_name = facts.device_name;
  verdict.settings_sha256 = facts.settings_sha256;
  verdict.call.failure_class = "too_long";
  verdict.call.message = "the code has " + std::to_string(request.code.size()) +
                         " bytes; as a JSON string it is longer than the " + std::to_string(max_frame_bytes >> 20) +
                         " MiB that the judge takes";
  verdict.feedback = "call failed: too_long: " + verdict.call.message + "\n";
  return verdict;
}

bool starts_with(std::string_view text, std::string_view start) { return text.substr(0, start.size()) == start; }

}  // namespace

std::vector<std::string> daemon_environment(const std::vector<std::string>& environment) {
  constexpr std::string_view names[] = {
      "PATH", "HOME", "LANG", "TMPDIR", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "ANNEAL_PYTHON", "ANNEAL_EVALUATOR_PYTHON"};
  constexpr std::string_view families[] = {"LC_", "CUDA_", "NVIDIA_", "TRITON_", "OMP_", "OPENBLAS_", "ANNEAL_EVALD_"};
  // A user may call a key variable NVIDIA_API_KEY.
  constexpr std::string_view secrets[] = {"KEY", "TOKEN", "SECRET", "PASSWORD"};
  std::vector<std::string> passed;
  for (const std::string& entry : environment) {
    const std::string_view name = std::string_view(entry).substr(0, entry.find('='));
    const bool named = std::find(std::begin(names), std::end(names), name) != std::end(names);
    const bool family = std::any_of(std::begin(families), std::end(families),
                                    [name](std::string_view f) { return starts_with(name, f); });
    const bool secret = std::any_of(std::begin(secrets), std::end(secrets),
                                    [name](std::string_view s) { return name.find(s) != std::string_view::npos; });
    if (named || (family && !secret)) passed.push_back(entry);
  }
  return passed;
}

struct Client::State {
  State(asio::any_io_executor e, DaemonOptions o)
      : executor(std::move(e)), options(std::move(o)), socket(executor), outbox_filled(executor) {
    outbox_filled.expires_at(steady_timer::time_point::max());
  }

  static asio::awaitable<Result<DeviceFacts>> connect(std::shared_ptr<State> state);
  static asio::awaitable<Result<DeviceFacts>> connect_once(std::shared_ptr<State> state, bool* killed);
  static asio::awaitable<void> supervise(std::shared_ptr<State> state);
  static asio::awaitable<void> converse(std::shared_ptr<State> state);
  static asio::awaitable<void> read_answers(std::shared_ptr<State> state);
  static asio::awaitable<void> write_requests(std::shared_ptr<State> state);
  static asio::awaitable<Result<json>> ask(std::shared_ptr<State> state, json message, std::string answer);
  static asio::awaitable<std::string> end_daemon(std::shared_ptr<State> state, std::chrono::milliseconds grace);

  Result<void> spawn();
  void take(const json& message);

  void enqueue(std::string frame) {
    outbox.push_back(std::move(frame));
    outbox_filled.cancel();
  }

  void send(Waiting* request) {
    ++request->sent;
    request->deadline = steady_timer::clock_type::now() + options.evaluation_timeout;
    request->wake.cancel();
    enqueue(request->frame);
  }

  static void settle(Waiting* request, Result<json> result) {
    request->result = std::move(result);
    request->wake.cancel();
  }

  void settle_all(const Error& error) {
    for (auto& entry : std::exchange(waiting, {})) settle(entry.second, tl::unexpected<Error>(error));
  }

  asio::any_io_executor executor;
  DaemonOptions options;
  DeviceFacts facts;
  std::optional<ChildProcess> child;
  Socket socket;
  bool connected = false;
  bool stopping = false;
  std::optional<Error> unusable;  // what the daemon said of its device
  std::optional<Error> broken;    // no daemon any more, and none will be started
  int restarts = 0;
  int losses_in_a_row = 0;  // since the last verdict: a run of days may lose a daemon now and then
  std::uint64_t next_id = 1;
  std::map<std::uint64_t, Waiting*> waiting;
  std::deque<std::string> outbox;
  steady_timer outbox_filled;
  std::optional<Semaphore> turns;
};

// Starts a daemon and ties `socket` to its descriptor 3.
Result<void> Client::State::spawn() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return fail(ErrorKind::io, std::string("socketpair: ") + std::strerror(errno) + ".");
  }
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ChildOptions daemon;
  daemon.argv = {options.program.string(), "--device", options.device, "--tasks",
                 options.tasks.string(),   "--suite",  options.suite};
  if (options.jobs > 0) {
    daemon.argv.push_back("--jobs");
    daemon.argv.push_back(std::to_string(options.jobs));
  }
  if (!options.target.empty()) {
    daemon.argv.push_back("--target");
    daemon.argv.push_back(options.target);
  }
  for (const std::filesystem::path& folder : options.hide) {
    daemon.argv.push_back("--hide");
    daemon.argv.push_back(folder.string());
  }
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) all.emplace_back(*entry);
  daemon.environment = daemon_environment(all);
  // Its stdout joins our stderr: anneal's stdout holds data alone.
  daemon.descriptors = {{ends[1], 3}, {null, 0}, {2, 1}};
  Result<ChildProcess> started = ChildProcess::start(executor, std::move(daemon));
  ::close(ends[1]);
  ::close(null);
  if (!started) {
    ::close(ends[0]);
    return tl::unexpected<Error>(started.error());
  }
  child.emplace(std::move(*started));
  boost::system::error_code error;
  socket = Socket(executor);
  socket.assign(asio::local::stream_protocol(), ends[0], error);
  if (error) {
    ::close(ends[0]);
    return fail(ErrorKind::io, "The daemon's socket: " + error.message() + ".");
  }
  return {};
}

// Closes the connection and ends the daemon; says how it ended.
asio::awaitable<std::string> Client::State::end_daemon(std::shared_ptr<State> state, std::chrono::milliseconds grace) {
  state->connected = false;
  boost::system::error_code ignored;
  state->socket.close(ignored);
  if (!state->child) co_return "was not running";
  Result<ExitStatus> ended = co_await with_deadline(state->child->wait(), grace);
  std::string how = "did not end by itself";
  if (ended) {
    how = describe(*ended);
  } else {
    co_await state->child->stop(500ms);
  }
  state->child.reset();
  co_return how;
}

asio::awaitable<Result<DeviceFacts>> Client::State::connect_once(std::shared_ptr<State> state, bool* killed) {
  const Result<void> spawned = state->spawn();
  if (!spawned) co_return tl::unexpected<Error>(spawned.error());
  Result<json> hello = fail(ErrorKind::internal, "");
  std::string lost;
  try {
    hello = co_await with_deadline(read_frame(&state->socket), state->options.hello_timeout,
                                   "anneal-evald did not say hello within " +
                                       std::to_string(state->options.hello_timeout.count() / 1000) + " seconds.");
  } catch (const ConnectionLost& reason) {
    lost = reason.what();
  }
  Result<DeviceFacts> result = fail(ErrorKind::internal, "");
  if (lost.empty() && hello) {
    result = facts_of_hello(*hello);
  } else if (lost.empty()) {
    result = tl::unexpected<Error>(hello.error());
  }
  if (result) {
    state->connected = true;
    co_return result;
  }
  const std::chrono::milliseconds grace = lost.empty() ? 100ms : 2000ms;
  std::string how = co_await end_daemon(state, grace);
  if (!lost.empty()) {
    *killed = how.starts_with("was killed");
    // Whether it said something on stderr is not known here: a killed one has not.
    result = fail(*killed ? ErrorKind::missing : ErrorKind::internal,
                  state->options.program.string() + " failed to start: " + lost + " and " + how +
                      (how.starts_with("exited") ? "; what it said, if anything, is above." : "."));
  }
  co_return result;
}

// Something may have killed it from outside (the kernel for want of memory, a batch system): it is started again, twice
// at most.
asio::awaitable<Result<DeviceFacts>> Client::State::connect(std::shared_ptr<State> state) {
  constexpr int most_starts = 3;
  for (int start = 1;; ++start) {
    bool killed = false;
    Result<DeviceFacts> facts = co_await connect_once(state, &killed);
    if (facts || !killed || state->stopping) co_return facts;
    if (start == most_starts) {
      co_return fail(ErrorKind::missing, facts.error().message + " It was started " + std::to_string(most_starts) +
                                             " times; is there memory enough?");
    }
    spdlog::warn("{} Starting it again ({} of {}).", facts.error().message, start, most_starts - 1);
    steady_timer pause(state->executor, 200ms * start);
    co_await pause.async_wait(asio::use_awaitable);
  }
}

// Handles one message. Throws ConnectionLost for what the protocol does not know.
void Client::State::take(const json& message) {
  const std::optional<MessageHead> head = head_of(message);
  if (!head) throw ConnectionLost("it sent an unknown message (\"" + text_at(message, "type") + "\")");
  const std::string& type = head->type;
  if (type == "fatal") {  // it lives, and must not be replaced: the device itself is not to be used
    unusable = Error{ErrorKind::internal, "The device cannot be used any more: " + text_at(message, "message") + "."};
    throw ConnectionLost("it gave up its device");
  }
  const auto found = waiting.find(head->id);
  if (found == waiting.end()) return;  // cancelled meanwhile
  Waiting* request = found->second;
  if (type != "fault" && type != request->answer) {
    throw ConnectionLost("it sent a " + type + " where a " + request->answer + " was asked for");
  }
  waiting.erase(found);
  if (type == "fault") {
    const std::string what = request->answer == "verdict" ? "The judge could not judge it: " : "The judge failed: ";
    settle(request, fail(ErrorKind::internal, what + text_at(message, "message")));
    return;
  }
  losses_in_a_row = 0;
  settle(request, message);
}

asio::awaitable<void> Client::State::read_answers(std::shared_ptr<State> state) {
  for (;;) {
    json message = co_await read_frame(&state->socket);
    state->take(message);
  }
}

asio::awaitable<void> Client::State::write_requests(std::shared_ptr<State> state) {
  boost::system::error_code error;
  for (;;) {
    while (!state->outbox.empty()) {
      const std::string frame = std::move(state->outbox.front());
      state->outbox.pop_front();
      co_await asio::async_write(state->socket, asio::buffer(frame), asio::redirect_error(asio::use_awaitable, error));
      if (error) throw ConnectionLost("it does not read any more");
    }
    if (state->stopping) break;
    co_await state->outbox_filled.async_wait(asio::redirect_error(asio::use_awaitable, error));
  }
  state->socket.shutdown(Socket::shutdown_send, error);
  // The reader sees the end of the stream, unless the daemon does not listen.
  steady_timer patience(state->executor, 3s);
  co_await patience.async_wait(asio::use_awaitable);
  throw ConnectionLost("it did not end when asked to");
}

// Until the connection is lost, which is how it ends too.
asio::awaitable<void> Client::State::converse(std::shared_ptr<State> state) {
  Nursery both(state->executor);
  both.spawn(read_answers(state));
  both.spawn(write_requests(state));
  co_await both.join();
}

asio::awaitable<void> Client::State::supervise(std::shared_ptr<State> state) {
  for (;;) {
    std::string reason;
    try {
      co_await converse(state);
    } catch (const ConnectionLost& lost) {
      reason = lost.what();
    }
    const bool asked = state->stopping;
    const std::chrono::milliseconds grace = asked ? 1000ms : 200ms;
    std::string how = co_await end_daemon(state, grace);
    if (asked || state->stopping) co_return;
    if (state->unusable) {
      state->broken = state->unusable;
      state->settle_all(*state->broken);
      co_return;
    }

    const std::string what = "anneal-evald was lost: " + reason + " and " + how + ".";
    const Error lost{ErrorKind::internal, what};
    for (auto entry = state->waiting.begin(); entry != state->waiting.end();) {
      Waiting* request = entry->second;
      if (request->sent < 2) {
        request->deadline = steady_timer::time_point::max();
        request->wake.cancel();
        ++entry;
        continue;
      }
      entry = state->waiting.erase(entry);
      settle(request, fail(ErrorKind::internal,
                           what + " It was lost before with this kernel in hand, which may be another's doing."));
    }
    if (state->losses_in_a_row >= state->options.max_restarts) {
      state->broken = lost;
      state->broken->message +=
          " It has been restarted " + std::to_string(state->losses_in_a_row) + " times without one verdict.";
      state->settle_all(*state->broken);
      co_return;
    }
    ++state->restarts;
    ++state->losses_in_a_row;
    spdlog::warn("{} Starting it again ({} of {}).", what, state->losses_in_a_row, state->options.max_restarts);
    state->outbox.clear();
    Result<DeviceFacts> facts = co_await connect(state);
    if (state->stopping) {
      co_await end_daemon(state, 0ms);
      co_return;
    }
    if (facts && facts->settings_sha256 != state->facts.settings_sha256) {
      facts = fail(ErrorKind::internal, "anneal-evald came back with other settings: its verdicts cannot be mixed.");
    }
    if (!facts) {
      co_await end_daemon(state, 0ms);
      state->broken = facts.error();
      state->settle_all(*state->broken);
      co_return;
    }
    for (auto& entry : state->waiting) state->send(entry.second);
  }
}

asio::awaitable<Result<std::unique_ptr<Client>>> Client::start(DaemonOptions options) {
  auto executor = co_await asio::this_coro::executor;
  auto state = std::make_shared<State>(executor, std::move(options));
  Result<DeviceFacts> facts = co_await State::connect(state);
  if (!facts) co_return tl::unexpected<Error>(facts.error());
  state->facts = *facts;
  state->turns.emplace(executor, state->facts.jobs);
  // It owns its state and ends when the client goes; ~Client cannot wait for it.
  asio::co_spawn(executor, State::supervise(state), [](std::exception_ptr error) {
    if (error) std::rethrow_exception(error);
  });
  co_return std::unique_ptr<Client>(new Client(std::move(state)));
}

Client::Client(std::shared_ptr<State> state) : state_(std::move(state)) {}

Client::~Client() {
  state_->stopping = true;
  if (state_->connected) {
    json message = json::object();
    message["type"] = "shutdown";
    state_->enqueue(encode_frame(message));
  } else if (state_->child) {
    state_->child->signal(SIGKILL);  // it was being started anew
  }
}

const DeviceFacts& Client::facts() const { return state_->facts; }

bool Client::lost() const { return state_->broken.has_value(); }

int Client::restarts() const { return state_->restarts; }

asio::awaitable<Result<Verdict>> Client::evaluate(EvaluationRequest request) {
  json message = json::object();
  message["type"] = "evaluate";
  message["task"] = request.task;
  message["code"] = request.code;
  message["stages"] = std::move(request.stages);
  message["policy_off"] = request.policy_off;
  Result<json> answer = fail(ErrorKind::internal, "");
  try {
    answer = co_await State::ask(state_, std::move(message), "verdict");
  } catch (const std::length_error&) {
    co_return too_long(request, state_->options.suite, state_->facts);
  }
  if (!answer) co_return tl::unexpected<Error>(answer.error());
  try {
    co_return verdict_from_json(answer->at("verdict"));
  } catch (const json::exception& error) {
    co_return fail(ErrorKind::internal, std::string("anneal-evald sent a malformed verdict: ") + error.what());
  }
}

asio::awaitable<Result<LintReport>> Client::lint(std::string task) {
  json message = json::object();
  message["type"] = "lint";
  message["task"] = std::move(task);
  Result<json> answer = co_await State::ask(state_, std::move(message), "lint_report");
  if (!answer) co_return tl::unexpected<Error>(answer.error());
  try {
    co_return lint_report_from_json(answer->at("report"));
  } catch (const json::exception& error) {
    co_return fail(ErrorKind::internal, std::string("anneal-evald sent a malformed lint report: ") + error.what());
  }
}

// Sends `message`, to which it adds an id, when a turn is free, and waits for its answer. Throws std::length_error
// where it does not fit into a frame.
asio::awaitable<Result<json>> Client::State::ask(std::shared_ptr<State> state, json message, std::string answer) {
  const Semaphore::Permit turn = co_await state->turns->acquire();
  if (state->broken) co_return tl::unexpected<Error>(*state->broken);

  const std::uint64_t id = state->next_id++;
  message["id"] = id;
  const std::string task = text_at(message, "task");
  Waiting waiting(state->executor);
  waiting.answer = std::move(answer);
  waiting.frame = encode_frame(message);

  struct Leave {
    State* state;
    std::uint64_t id;
    ~Leave() {
      if (state->waiting.erase(id) == 0 || !state->connected) return;
      json cancel = json::object();
      cancel["type"] = "cancel";
      cancel["id"] = id;
      state->enqueue(encode_frame(cancel));
    }
  } leave{state.get(), id};
  state->waiting.emplace(id, &waiting);
  if (state->connected) state->send(&waiting);  // else it is sent when the new daemon is there

  while (!waiting.result) {
    waiting.wake.expires_at(waiting.deadline);
    boost::system::error_code woken;
    co_await waiting.wake.async_wait(asio::redirect_error(asio::use_awaitable, woken));
    if (!woken && !waiting.result && state->connected && waiting.deadline <= steady_timer::clock_type::now()) {
      waiting.deadline = steady_timer::time_point::max();
      spdlog::warn("anneal-evald has not answered for {} in {} s; it is killed", task,
                   state->options.evaluation_timeout.count() / 1000);
      state->child->signal(SIGKILL);
    }
    const asio::cancellation_state cancellation = co_await asio::this_coro::cancellation_state;
    if (!waiting.result && cancellation.cancelled() != asio::cancellation_type::none) {
      throw boost::system::system_error(asio::error::operation_aborted);
    }
  }
  co_return std::move(*waiting.result);
}

}  // namespace anneal::evaluator
