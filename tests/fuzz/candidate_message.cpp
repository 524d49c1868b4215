// What the judge reads of a candidate, as far as it needs no torch: the channel, and what is claimed of launches and
// operators.
#include <fcntl.h>
#include <sys/socket.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <vector>

#include "evaluator/daemon/channel.h"
#include "evaluator/daemon/claims.h"
#include "evaluator/nesting.h"
#include "tests/fuzz/fuzz.h"

using namespace anneal;
using evaluator::Channel;
using nlohmann::json;

namespace {

// Sends `text` with `count` descriptors, as a hostile process can: without Channel::send.
void send_raw(int socket, std::string_view text, std::size_t count) {
  static const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  const std::vector<int> descriptors(count, null);
  iovec part{const_cast<char*>(text.data()), text.size()};
  std::vector<char> control(CMSG_SPACE(count * sizeof(int)));
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (count > 0) {
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(count * sizeof(int));
    std::copy(descriptors.begin(), descriptors.end(), reinterpret_cast<int*>(CMSG_DATA(rights)));
  }
  fuzz::require(::sendmsg(socket, &header, MSG_DONTWAIT) == static_cast<ssize_t>(text.size()), "sendmsg");
}

void read_claims(const json& reply) {
  try {
    const json& kernels = reply.at("kernels");
    evaluator::launch_claims(kernels);
    evaluator::host_compute(kernels.at("host_operators"), 4096, {"mul"});
  } catch (const json::exception&) {  // the judge takes the process for lost
  }
}

}  // namespace

// The first byte says how many descriptors come along, more than a message may have among them.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  auto [judge, candidate] = Channel::pair();
  const std::size_t count = data[0] % 4 == 0 ? data[0] / 4 % 12 : 0;
  send_raw(candidate.fd(), fuzz::view_of(data + 1, size - 1), count);
  json message;
  std::vector<evaluator::UniqueFd> received;
  const auto status = judge.receive(message, std::chrono::steady_clock::now() + std::chrono::seconds(1), &received);
  fuzz::require(status != Channel::Status::timeout, "what was sent is received");
  if (status != Channel::Status::ok) return 0;
  fuzz::require(received.size() == std::min<std::size_t>(count, 8), "at most eight descriptors come along");
  fuzz::require(message.is_object(), "a message is an object");
  fuzz::require(evaluator::nesting(message.dump()) <= evaluator::most_nesting, "a message is not nested deeply");
  read_claims(message);
  return 0;
}
