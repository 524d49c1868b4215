// The candidate's process: loads one hostile kernel and runs it on what the judge put into the arena. It returns data
// only; nothing it says is a verdict.
//
// Messages from the judge, each answered by one message (unless the candidate dies first):
//   scan    {path}                         -> {class, message, detail, forbidden: [text], decoys: [name]}
//           before load: nothing hostile has run, so the answer can be believed
//   load    {path, entry}                  -> {class, message, detail}
//   arena   {role: "inputs"|"outputs", bytes} + descriptor  -> {}
//   run     {arguments: [layout | value], left_out}  -> {class, message, detail, outputs: [described], kernels: {...}}
//           left_out: "nothing"; "kernels" are compiled and not launched; "integer_dots" add nothing (on a GPU kernels
//           with one are not launched)
//   collect {offsets: [bytes]}             -> {}        copies the outputs of the last run, contiguous
//   warm    {arguments, calls, seconds}    -> {}        GPU only: calls, at most for so long
//   time    {older, arguments, calls, seconds}  -> {warmed: true} when it has made `calls` on the older arguments, then
//           {offset, bytes, key}           -> {event_ns, needs_sync, side_streams, launches, host_operators}
//           GPU only: the key makes the noise at [offset, offset + bytes) the arguments; then one cold call
//   outputs {}                             -> as run, of the last timed call
#pragma once

#include "evaluator/daemon/zygote.h"

namespace anneal::evaluator {

// Environment and privileges of a candidate, for this process and all it starts. Leaves with sandbox_failed_status when
// that fails.
void enter_sandbox(const CandidateSettings& settings, const SandboxAbilities& abilities, int socket);

// In the sandbox. Never returns: the process leaves with _exit.
[[noreturn]] void run_candidate(const CandidateSettings& settings, int socket);

inline constexpr int sandbox_failed_status = 97;

}  // namespace anneal::evaluator
