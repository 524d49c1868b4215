#include "evaluator/daemon/candidate_handle.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <sstream>
#include <string>

#include "evaluator/daemon/candidate.h"
#include "evaluator/daemon/tree_watch.h"

namespace anneal::evaluator {

namespace {

using nlohmann::json;

Deadline after(double seconds) {
  using Clock = std::chrono::steady_clock;
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

Spawned spawn(ZygoteClient& zygote, const CandidateSettings& settings) {
  try {
    return zygote.spawn(settings);
  } catch (const std::runtime_error& error) {
    throw MachineFault(std::string("cannot start a candidate: ") + error.what());
  }
}

}  // namespace

std::optional<unsigned> next_candidate_user(const SandboxAbilities& abilities) {
  if (!abilities.drop_user) return std::nullopt;
  static std::atomic<unsigned> count{0};
  // Two daemons differ by their process id.
  return abilities.first_user + (static_cast<unsigned>(::getpid()) % 100'000 * 1000 + count++ % 1000) % abilities.users;
}

CandidateHandle::CandidateHandle(ZygoteClient& zygote, const CandidateSettings& settings)
    : zygote_(zygote), device_(settings.device), oom_kills_(oom_kills()), spawned_(spawn(zygote, settings)) {}

CandidateHandle::~CandidateHandle() {
  try {
    end();
  } catch (const std::exception&) {
    // The zygote is gone, and with it, by PDEATHSIG, the candidate.
  }
}

json CandidateHandle::ask(const json& request, double seconds, const std::vector<int>& descriptors) {
  if (spawned_.channel.has_unread()) {  // an answer given before the question
    end();
    throw CandidateLost{"crashed", "the process sent something else than its result"};
  }
  json reply;
  const Deadline deadline = after(seconds);
  Channel::Status status = spawned_.channel.send(request, deadline, descriptors);
  if (status == Channel::Status::ok) status = spawned_.channel.receive(reply, deadline);
  switch (status) {
    case Channel::Status::ok:
      return reply;
    case Channel::Status::timeout: {
      end();
      std::ostringstream text;
      text << "killed after " << seconds << " s";
      throw CandidateLost{"timeout", text.str()};
    }
    case Channel::Status::malformed:
      end();
      throw CandidateLost{"crashed", "the process sent something else than its result"};
    case Channel::Status::closed:
      throw ended_how();
  }
  throw MachineFault("unreachable");
}

void CandidateHandle::end() {
  if (ended_) return;
  ended_ = true;
  status_ = zygote_.kill_and_reap(spawned_);
  if (!status_)
    throw MachineFault("a candidate could not be killed within a minute: the device must not be used any more");
}

Arena& CandidateHandle::arena(const char* role, std::unique_ptr<Arena>& held, std::size_t bytes) {
  if (held == nullptr || held->bytes() < bytes) {
    constexpr std::size_t least = 64 << 20;  // room to grow in; a new arena costs a mapping on both sides
    held = Arena::create(device_, std::max(bytes, least));
    ask({{"op", "arena"}, {"role", role}, {"bytes", held->bytes()}}, 30, {held->descriptor()});
  }
  return *held;
}

CandidateLost CandidateHandle::ended_how() {
  // The channel closed, so the candidate is gone or going; its init ends at once with the candidate's own status,
  // which killing it earlier would hide.
  pollfd ended{spawned_.init.get(), POLLIN, 0};
  int count;
  do {
    count = ::poll(&ended, 1, 5000);
  } while (count < 0 && errno == EINTR);
  const bool by_itself = count > 0;
  end();
  if (*status_ == sandbox_failed_status) {
    throw MachineFault("the sandbox could not be built (its reason is on stderr)");
  }
  if (*status_ == machine_short_status) {
    throw MachineFault("the machine ran out of memory, and no kernel alone had taken more than its share");
  }
  if (*status_ == memory_exceeded_status) {
    return {"out_of_memory", "killed: its processes held more than " +
                                 std::to_string(zygote_.abilities().candidate_memory >> 20) +
                                 " MiB of the host's memory"};
  }
  if (*status_ == folder_exceeded_status) {
    return {"crashed", "killed: its files took more than " + std::to_string(scratch_bytes >> 20) + " MiB"};
  }
  if (by_itself && *status_ == 128 + SIGKILL && oom_kills() != oom_kills_) {
    throw MachineFault("killed when the machine ran out of memory, its own being within the limit");
  }
  if (*status_ > 128) {
    const char* name = ::sigabbrev_np(*status_ - 128);
    return {"crashed",
            std::string("the process was ended by SIG") + (name != nullptr ? name : std::to_string(*status_ - 128)),
            true};
  }
  return {"crashed", "the process ended by itself with exit code " + std::to_string(*status_)};
}

}  // namespace anneal::evaluator
