// The candidate's process: loads one hostile kernel and runs it on what the judge put into the arena. It returns data
// only; nothing it says is a verdict.
//
// Messages from the judge, each answered by one message (unless the candidate dies first):
//   load    {path, entry}                  -> {class, message, detail}
//   arena   {role: "inputs"|"outputs", bytes} + descriptor  -> {}
//   run     {arguments: [layout | value]}  -> {class, message, detail, outputs: [described], kernels: {...}}
//   collect {offsets: [bytes]}             -> {}        copies the outputs of the last run, contiguous
//   warm    {arguments, calls, seconds}    -> {}        GPU only: calls, at most for so long
//   time    {arguments}                    -> {event_ns, needs_sync, side_streams}     GPU only: one cold call
//   outputs {}                             -> as run, of the last timed call
#pragma once

#include "evaluator/daemon/zygote.h"

namespace anneal::evaluator {

// Never returns: the process leaves with _exit.
[[noreturn]] void run_candidate(const CandidateSettings& settings, const SandboxAbilities& abilities, int socket);

inline constexpr int sandbox_failed_status = 97;

}  // namespace anneal::evaluator
