// JSON messages with file descriptors over a unix SOCK_SEQPACKET socket: judge <-> zygote, judge <-> candidate.
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "evaluator/daemon/unique_fd.h"

namespace anneal::evaluator {

using Deadline = std::chrono::steady_clock::time_point;
inline constexpr Deadline no_deadline = Deadline::max();

class Channel {
 public:
  Channel() = default;
  explicit Channel(UniqueFd socket) : socket_(std::move(socket)) {}

  // A connected pair, close-on-exec. Throws std::system_error.
  static std::pair<Channel, Channel> pair();

  enum class Status { ok, closed, timeout, malformed };

  // One message of at most max_message_bytes, with up to 8 descriptors (duplicated for the receiver).
  // closed: the peer is gone; timeout: it does not read. Never raises SIGPIPE. Throws std::length_error on a message
  // too long, and std::system_error where the fault is this side's (a descriptor that is no socket of ours).
  Status send(const nlohmann::json& message, Deadline deadline, const std::vector<int>& descriptors = {});

  // Whether a message waits that nobody asked for.
  bool has_unread() const;

  // The next message. malformed: not JSON, or not an object; the peer is broken or hostile. Throws as send() does.
  Status receive(nlohmann::json& message, Deadline deadline, std::vector<UniqueFd>* descriptors = nullptr);

  int fd() const { return socket_.get(); }

  static constexpr std::size_t max_message_bytes = 128 << 10;

 private:
  UniqueFd socket_;
};

}  // namespace anneal::evaluator
