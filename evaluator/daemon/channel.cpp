#include "evaluator/daemon/channel.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <system_error>

#include "evaluator/nesting.h"

namespace anneal::evaluator {

namespace {
constexpr std::size_t max_descriptors = 8;

// The peer's going is all that `closed` may mean: of anything else it is not the peer that must answer for it.
Channel::Status closed_by_peer(const char* call) {
  if (errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN) return Channel::Status::closed;
  throw std::system_error(errno, std::generic_category(), call);
}

Channel::Status await(int socket, short what, Deadline deadline) {
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    pollfd ready{socket, what, 0};
    const int count = ::poll(&ready, 1, static_cast<int>(std::clamp<long long>(left, 0, 1'000'000)));
    if (count > 0) return Channel::Status::ok;  // with POLLHUP or POLLNVAL too: the call that follows says which
    if (count == 0 && left <= 0) return Channel::Status::timeout;
    if (count < 0 && errno != EINTR) return closed_by_peer("poll");
  }
}

}  // namespace

std::pair<Channel, Channel> Channel::pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    throw std::system_error(errno, std::generic_category(), "socketpair");
  }
  const int room = 4 * static_cast<int>(max_message_bytes);
  for (const int end : ends) ::setsockopt(end, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
  return {Channel(UniqueFd(ends[0])), Channel(UniqueFd(ends[1]))};
}

Channel::Status Channel::send(const nlohmann::json& message, Deadline deadline, const std::vector<int>& descriptors) {
  const std::string text = message.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (text.size() > max_message_bytes || descriptors.size() > max_descriptors) {
    throw std::length_error("a message of " + std::to_string(text.size()) + " bytes");
  }
  iovec data{const_cast<char*>(text.data()), text.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(max_descriptors * sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  if (!descriptors.empty()) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(descriptors.size() * sizeof(int));
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
    std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size() * sizeof(int));
  }
  while (::sendmsg(socket_.get(), &header, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return closed_by_peer("sendmsg");
    if (const Status room = await(socket_.get(), POLLOUT, deadline); room != Status::ok) return room;
  }
  return Status::ok;
}

bool Channel::has_unread() const {
  char first;
  return ::recv(socket_.get(), &first, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

Channel::Status Channel::receive(nlohmann::json& message, Deadline deadline, std::vector<UniqueFd>* descriptors) {
  if (const Status ready = await(socket_.get(), POLLIN, deadline); ready != Status::ok) return ready;
  std::string text(max_message_bytes + 1, '\0');
  iovec data{text.data(), text.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(max_descriptors * sizeof(int))];
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  ssize_t size;
  do {
    size = ::recvmsg(socket_.get(), &header, MSG_CMSG_CLOEXEC);
  } while (size < 0 && errno == EINTR);
  if (size == 0) return Status::closed;
  if (size < 0) return closed_by_peer("recvmsg");

  std::vector<UniqueFd> received;
  for (cmsghdr* rights = CMSG_FIRSTHDR(&header); rights != nullptr; rights = CMSG_NXTHDR(&header, rights)) {
    if (rights->cmsg_level != SOL_SOCKET || rights->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (rights->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(rights) + i * sizeof(int), sizeof fd);
      received.emplace_back(fd);
    }
  }
  if (descriptors != nullptr) *descriptors = std::move(received);
  text.resize(static_cast<std::size_t>(size));
  if (nesting(text) > most_nesting) return Status::malformed;
  message = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  return message.is_object() ? Status::ok : Status::malformed;
}

}  // namespace anneal::evaluator
