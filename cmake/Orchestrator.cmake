# anneal: plain C++20, no torch, no CUDA. One library a folder; the arrows of docs/map.md are the link lines here.

# The judge's daemon shares only these files with the orchestrator.
add_library(anneal_protocol STATIC evaluator/verdict.cpp evaluator/lint_report.cpp evaluator/protocol.cpp
  evaluator/nesting.cpp)
target_link_libraries(anneal_protocol PUBLIC anneal_warnings)
find_package(nlohmann_json REQUIRED)
target_link_libraries(anneal_protocol PUBLIC nlohmann_json::nlohmann_json)

if(NOT ANNEAL_ORCHESTRATOR)
  return()
endif()

find_package(Threads REQUIRED)
find_package(CURL REQUIRED)
if(POLICY CMP0167)
  cmake_policy(SET CMP0167 NEW)  # Boost's own configuration file, as CMake 3.25 takes it too
endif()
find_package(Boost 1.81 REQUIRED)
find_package(Eigen3 REQUIRED)
find_path(SQLITECPP_INCLUDE SQLiteCpp/SQLiteCpp.h REQUIRED)

if(ANNEAL_PORTABLE)
  set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
  add_link_options(-static-libstdc++ -static-libgcc)
endif()
find_library(SQLITECPP_LIB SQLiteCpp REQUIRED)
find_library(SQLITE3_LIB sqlite3 REQUIRED)
find_library(ZSTD_LIB zstd REQUIRED)
find_library(CRYPTO_LIB crypto REQUIRED)
find_library(YAML_LIB yaml-cpp REQUIRED)
if(ANNEAL_PORTABLE)  # Debian has no static spdlog and fmt
  add_library(anneal_log INTERFACE)
  target_compile_definitions(anneal_log INTERFACE SPDLOG_HEADER_ONLY FMT_HEADER_ONLY SPDLOG_FMT_EXTERNAL)
else()
  find_library(SPDLOG_LIB spdlog REQUIRED)
  find_library(FMT_LIB fmt REQUIRED)
  add_library(anneal_log INTERFACE)
  target_link_libraries(anneal_log INTERFACE ${SPDLOG_LIB} ${FMT_LIB})
  target_compile_definitions(anneal_log INTERFACE SPDLOG_COMPILED_LIB SPDLOG_FMT_EXTERNAL)
endif()

function(anneal_folder name)
  file(GLOB sources CONFIGURE_DEPENDS ${name}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "evaluator/(verdict|lint_report|protocol|nesting)\\.cpp$")
  add_library(anneal_${name} STATIC ${sources})
  target_link_libraries(anneal_${name} PUBLIC anneal_warnings ${ARGN})
endfunction()

anneal_folder(async Boost::headers Threads::Threads anneal_log ${CRYPTO_LIB})
target_compile_definitions(anneal_async PUBLIC BOOST_ASIO_SEPARATE_COMPILATION BOOST_ASIO_NO_DEPRECATED)
anneal_folder(llm anneal_async CURL::libcurl nlohmann_json::nlohmann_json)
anneal_folder(evaluator anneal_async anneal_protocol)
anneal_folder(transitions anneal_async anneal_protocol ${SQLITECPP_LIB} ${SQLITE3_LIB} ${ZSTD_LIB} Eigen3::Eigen ${CMAKE_DL_LIBS})
anneal_folder(agents anneal_llm anneal_evaluator anneal_transitions ${YAML_LIB})

file(GLOB tool_sources CONFIGURE_DEPENDS tools/*.cpp)
list(FILTER tool_sources EXCLUDE REGEX "/(llm_sim)\\.cpp$")
add_executable(anneal ${tool_sources})
target_link_libraries(anneal PRIVATE anneal_agents)
target_compile_definitions(anneal PRIVATE ANNEAL_VERSION="${PROJECT_VERSION}" ANNEAL_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
  ANNEAL_PYTHON="${ANNEAL_PYTHON}")

# A local stand-in for a provider.
add_executable(llm_sim tools/llm_sim.cpp)
target_link_libraries(llm_sim PRIVATE anneal_llm)
