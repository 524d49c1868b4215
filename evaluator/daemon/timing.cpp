#include "evaluator/daemon/timing.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <iomanip>
#include <sstream>

#include "evaluator/daemon/claims.h"
#include "evaluator/daemon/held_blocks.h"
#include "evaluator/daemon/tensors.h"
#include "evaluator/whole_number.h"

namespace anneal::evaluator {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

// The first calls of both sides compile, autotune and fill caches; a slow kernel does fewer. Before a sample there are
// two to four, so that no kernel knows by counting which of its calls is timed.
constexpr int first_warm = 20, least_warm = 2, most_warm = 4;
constexpr double most_warm_seconds = 1;
constexpr unsigned judged_share = 10;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::string below_floor(double claimed, double floor_ns) {
  std::ostringstream text;
  text << std::setprecision(3) << claimed * 1e-3 << " us is less than the " << floor_ns * 1e-3
       << " us that the memory needs for the task's bytes";
  return text.str();
}

class CaseTimer {
 public:
  explicit CaseTimer(const TimingJob& job) : job_(job) {}

  TimedCase run() {
    try {
      renew();
      renew();
      places_[newer_].baseline->warm(job_.timer, first_warm, most_warm_seconds);
      ask({{"op", "warm"},
           {"arguments", places_[1 - newer_].placed.described},
           {"tune", true},
           {"calls", first_warm},
           {"seconds", most_warm_seconds}});
      const auto start = Clock::now();
      timed_.paired = measure_pairs([&](int) { return quad(); }, [&] { return seconds_since(start); }, job_.settings);
      time_candidate(true);
      if (static_cast<int>(timed_.paired.quads.size()) < job_.settings.few_quads) {
        throw TimingStopped{"not_measured",
                            "too slow to be timed: " + std::to_string(timed_.paired.quads.size()) + " pairs in " +
                                std::to_string(static_cast<int>(seconds_since(start))) + " s",
                            true, timed_.other_work};
      }
    } catch (const WrongAnswer&) {
    } catch (const CandidateLost& lost) {
      // A correct kernel that is too slow to be timed stays correct; one that fails at this size does not.
      if (lost.failure_class == "timeout") throw TimingStopped{"not_measured", lost.message, true, timed_.other_work};
      throw;
    }
    return std::move(timed_);
  }

 private:
  struct WrongAnswer {};  // `timed_.wrong` says which: nothing more is timed

  // Two sets of inputs in two places of the arena. Both sides warm up on the older and are timed on the newer one, in
  // the same memory: anything that only one of them does shows as up to 10 % (docs/measurements.md).
  struct Place {
    InputSet set;
    PlacedArguments placed;
    std::optional<Baseline> baseline;
    std::size_t room = 0;  // bytes from the place's beginning
  };

  Quad quad() {
    Quad quad;
    const bool baseline_first = (job_.random() & 1) != 0;
    if (baseline_first) quad.baseline_ns[0] = time_baseline();
    quad.candidate_ns[0] = time_candidate(false);
    if (!baseline_first) {
      quad.baseline_ns[0] = time_baseline();
      quad.baseline_ns[1] = time_baseline();
    }
    quad.candidate_ns[1] = time_candidate(false);
    if (baseline_first) quad.baseline_ns[1] = time_baseline();
    return quad;
  }

  void renew() {
    newer_ = 1 - newer_;
    Place& one = places_[newer_];
    one.set = job_.set;
    one.set.draw += "-" + std::to_string(draws_++);
    std::vector<Argument> arguments = job_.task.inputs(one.set, torch_device(job_.device).str());
    one.room = room_for(arguments);
    Arena& arena = job_.candidate.inputs(2 * one.room);
    one.placed = place(arena, std::move(arguments), newer_ * one.room, job_.random() % most_shift, job_.device);
    one.baseline = job_.task.baseline(one.placed.all_in(arena, job_.device));
  }

  void scramble(std::uint64_t key) {
    const Place& one = places_[newer_];
    gpu::scramble(job_.candidate.inputs(0).data() + newer_ * one.room, one.room, key);
  }

  double time_baseline() {
    if (!job_.task.rules().in_place.empty()) renew();
    held_.renew(job_.device, job_.random());
    places_[1 - newer_].baseline->warm(job_.timer, warm_calls(), most_warm_seconds);
    scramble(1);
    scramble(1);  // as the candidate's side does, and back
    return places_[newer_].baseline->measure(job_.timer).event_ns;
  }

  double time_candidate(bool sure_to_be_judged) {
    renew();
    const Place& place = places_[newer_];
    const std::uint64_t key = job_.random();
    scramble(key);
    ask({{"op", "time"},
         {"older", places_[1 - newer_].placed.described},
         {"arguments", place.placed.described},
         {"calls", warm_calls()},
         {"seconds", most_warm_seconds},
         {"held", job_.random() >> 1}});
    const auto before = Clock::now();
    const json reply = ask({{"offset", newer_ * place.room}, {"bytes", place.room}, {"key", key}});
    const double wall_ns = seconds_since(before) * 1e9;
    ++timed_.samples;
    timed_.syncs += reply.value("needs_sync", false) ? 1 : 0;
    timed_.side_streams += reply.value("side_streams", false) ? 1 : 0;
    if (whole_number<std::int64_t>(reply.at("launches")) == 0) timed_.other_work = "no Triton kernel is launched";
    const std::string host = host_compute(reply.at("host_operators"), job_.largest, job_.task.rules().host_operators);
    if (!host.empty()) timed_.other_work = "torch computes on whole tensors: " + host;
    // The candidate's clock is a claim: the judge's own bounds it from above, the memory's peak from below.
    const double claimed = reply.at("event_ns").get<double>();
    if (!(claimed > 0) || claimed > wall_ns) throw CandidateLost{"crashed", "the process reported an impossible time"};
    const bool too_fast = claimed < job_.floor_ns;
    if (sure_to_be_judged || too_fast || job_.random() % judged_share == 0) judge_answer();
    if (too_fast) throw TimingStopped{"rejected", below_floor(claimed, job_.floor_ns), false, timed_.other_work};
    return claimed;
  }

  // The candidate's answer; what a call raised ends the timing.
  json ask(const json& request) {
    json reply = job_.candidate.ask(request, job_.answer_seconds);
    if (reply.value("class", "ok") != "ok") refuse(verdict_on(reply));
    return reply;
  }

  int warm_calls() { return least_warm + static_cast<int>(job_.random() % (most_warm - least_warm + 1)); }

  void judge_answer() {
    const json reply = job_.candidate.ask({{"op", "outputs"}}, job_.answer_seconds);
    CaseVerdict verdict = verdict_on(reply);
    if (!job_.passes(verdict)) refuse(std::move(verdict));
  }

  CaseVerdict verdict_on(const json& reply) const {
    return job_.judge(reply, places_[newer_].set, places_[newer_].placed);
  }

  [[noreturn]] void refuse(CaseVerdict verdict) {
    verdict.message = "in a timed call: " + verdict.message;
    timed_.wrong = std::move(verdict);
    throw WrongAnswer{};
  }

  const TimingJob& job_;
  std::array<Place, 2> places_;
  HeldBlocks held_;
  int draws_ = 0, newer_ = 0;
  TimedCase timed_;
};

}  // namespace

TimedCase time_case(const TimingJob& job) { return CaseTimer(job).run(); }

double time_baseline_alone(SuiteTask& task, const InputSet& set, gpu::Timer& timer, int device) {
  std::vector<Argument> arguments = task.inputs(set, torch_device(device).str());
  const std::unique_ptr<Arena> arena = Arena::create(device, room_for(arguments));
  const PlacedArguments placed = place(*arena, std::move(arguments), 0, 0, device);
  const Baseline baseline = task.baseline(placed.all_in(*arena, device));
  baseline.warm(timer, 10, 0.5);
  std::vector<double> samples;
  HeldBlocks held;
  for (std::uint64_t i = 0; i < 16; ++i) {
    held.renew(device, i);
    baseline.warm(timer, 2, 0.5);
    samples.push_back(baseline.measure(timer).event_ns);
  }
  return trimmed_mean(std::move(samples));
}

double fastest_ns(const std::optional<double>& bytes, double output_bytes, const gpu::DeviceProperties& properties) {
  const double peak = properties.peak_bytes_a_second;
  if (!bytes || peak <= 0) return 0;
  const double in_l2 = std::min(static_cast<double>(properties.l2_bytes), output_bytes);
  return 0.9 * std::max(0.0, *bytes - in_l2) / peak * 1e9;
}

}  // namespace anneal::evaluator
