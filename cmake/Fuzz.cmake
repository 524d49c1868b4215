# One libFuzzer program, fuzz_NAME, for each file of tests/fuzz; tools/fuzz runs them.
function(anneal_fuzz name)
  add_executable(fuzz_${name} tests/fuzz/${name}.cpp)
  target_link_libraries(fuzz_${name} PRIVATE ${ARGN})
  target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
endfunction()

anneal_fuzz(daemon_message anneal_evaluator)
anneal_fuzz(candidate_message anneal_protocol)
# Of the judge's daemon, what reads a candidate's messages and needs no torch.
target_sources(fuzz_candidate_message PRIVATE evaluator/daemon/channel.cpp evaluator/daemon/claims.cpp)
anneal_fuzz(reply anneal_agents)
anneal_fuzz(chat anneal_llm)
anneal_fuzz(recording anneal_llm)
anneal_fuzz(config anneal_agents)
