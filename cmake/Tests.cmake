# One test program a folder of tests/; ctest runs each test case by itself.
find_package(GTest REQUIRED)
include(GoogleTest)
find_library(RAPIDCHECK_LIB rapidcheck REQUIRED)

function(anneal_tests name)
  file(GLOB sources CONFIGURE_DEPENDS tests/${name}/*.cpp)
  if(NOT sources)
    return()
  endif()
  add_executable(${name}_test ${sources})
  target_link_libraries(${name}_test PRIVATE ${ARGN} GTest::gmock_main ${RAPIDCHECK_LIB})
  target_compile_definitions(${name}_test PRIVATE ANNEAL_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
    ANNEAL_BIN_DIR="${CMAKE_RUNTIME_OUTPUT_DIRECTORY}")
  gtest_discover_tests(${name}_test TEST_PREFIX ${name}. DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 600)
endfunction()

anneal_tests(async anneal_async)
anneal_tests(llm anneal_llm)
anneal_tests(evaluator anneal_evaluator)
anneal_tests(transitions anneal_transitions)
anneal_tests(agents anneal_agents)
anneal_tests(tools anneal_agents)
anneal_tests(cases anneal_agents)

# The forms of co_await that we rely on, under the address sanitizer in every preset; so all that it links is built here too.
# Asio's reuse of coroutine frames would hide from the sanitizer that a frame is used after its end.
add_executable(coroutine_canary_test tests/async/canary/safe_patterns_test.cpp async/asio.cpp async/nursery.cpp)
target_link_libraries(coroutine_canary_test PRIVATE anneal_warnings Boost::headers Threads::Threads GTest::gtest_main)
target_compile_definitions(coroutine_canary_test PRIVATE BOOST_ASIO_SEPARATE_COMPILATION BOOST_ASIO_NO_DEPRECATED
  BOOST_ASIO_DISABLE_AWAITABLE_FRAME_RECYCLING)
target_compile_options(coroutine_canary_test PRIVATE -fsanitize=address -fno-omit-frame-pointer)
target_link_options(coroutine_canary_test PRIVATE -fsanitize=address)
gtest_discover_tests(coroutine_canary_test TEST_PREFIX canary. DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 600)

if(TARGET tools_test)
  add_dependencies(tools_test anneal)  # they run the real program
endif()
if(TARGET anneal-evald)
  add_dependencies(evaluator_test anneal-evald)
  anneal_tests(evald anneal_evald_parts)
  # Its own GPU stands before that of the library, of which nothing is left to be linked.
  add_executable(anneal-evald-simulated evaluator/daemon/main.cpp tests/simulated/gpu_simulated.cpp)
  target_link_libraries(anneal-evald-simulated PRIVATE anneal_evald_parts)
  target_compile_definitions(anneal-evald-simulated PRIVATE
    $<TARGET_PROPERTY:anneal-evald,COMPILE_DEFINITIONS>)
  add_dependencies(evaluator_test anneal-evald-simulated)
  add_dependencies(tools_test anneal-evald)
  foreach(name screen kernel_body host_operators seal make task tuning raised)
    add_test(NAME evaluator.${name} COMMAND ${ANNEAL_PYTHON} ${CMAKE_SOURCE_DIR}/tests/evaluator/${name}_test.py)
    set_tests_properties(evaluator.${name} PROPERTIES TIMEOUT 600)
  endforeach()
  set(sources ${CMAKE_SOURCE_DIR}/tests)
  add_test(NAME tools.declared COMMAND ${ANNEAL_PYTHON} ${CMAKE_SOURCE_DIR}/tools/bench/declared.py judge
    $<TARGET_FILE:anneal> cpu ${CMAKE_BINARY_DIR}/declared ${sources}/exploits ${sources}/controls)
  set_tests_properties(tools.declared PROPERTIES TIMEOUT 1800 RUN_SERIAL TRUE)
  add_test(NAME tools.storm COMMAND ${ANNEAL_PYTHON} ${CMAKE_SOURCE_DIR}/tools/bench/storm.py
    $<TARGET_FILE:anneal> $<TARGET_FILE:anneal-evald> ${CMAKE_BINARY_DIR}/storm --evaluations 33 --call-seconds 15)
  set_tests_properties(tools.storm PROPERTIES TIMEOUT 600 RUN_SERIAL TRUE)  # it has deadlines
endif()

# Every header compiles alone.
file(GLOB_RECURSE headers CONFIGURE_DEPENDS async/*.h llm/*.h evaluator/*.h transitions/*.h agents/*.h tools/*.h)
list(FILTER headers EXCLUDE REGEX "evaluator/daemon/")
set(header_units)
foreach(header ${headers})
  file(RELATIVE_PATH relative ${CMAKE_SOURCE_DIR} ${header})
  string(REPLACE "/" "_" unit ${relative})
  set(unit ${CMAKE_BINARY_DIR}/header_units/${unit}.cpp)
  file(CONFIGURE OUTPUT ${unit} CONTENT "#include \"${relative}\"\n")
  list(APPEND header_units ${unit})
endforeach()
add_library(header_units OBJECT EXCLUDE_FROM_ALL ${header_units})
target_link_libraries(header_units PRIVATE anneal_agents)
