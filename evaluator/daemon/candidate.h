// The candidate's process: loads one hostile kernel and runs it on what the judge put into the arena. It returns data
// only; nothing it says is a verdict.
//
// Messages from the judge, each answered by one message (unless the candidate dies first):
//   load    {path, entry}                  -> {class, message, detail}
//   arena   {role: "inputs"|"outputs", bytes} + descriptor  -> {}
//   run     {arguments: [layout | value]}  -> {class, message, detail, outputs: [described], kernels: {...}}
//   collect {offsets: [bytes]}             -> {}        copies the outputs of the last run, contiguous
//   time    {arguments, warm}              -> {event_ns, wall_ns, needs_sync}      GPU only
#pragma once

#include "evaluator/daemon/zygote.h"

namespace anneal::evaluator {

// Never returns: the process leaves with _exit.
[[noreturn]] void run_candidate(const CandidateSettings& settings, const SandboxAbilities& abilities, int socket);

inline constexpr int sandbox_failed_status = 97;

}  // namespace anneal::evaluator
