// Which folders the judge can hide from kernels.
#pragma once

#include <filesystem>
#include <vector>

namespace anneal::evaluator {

// Of `wanted`, the folders that can be covered while a kernel runs: existing ones, resolved, none inside another, and
// none that holds one of `needed` (an empty folder would take its place) or lies inside one of `whole`. Those that
// exist but cannot be covered go to `open`, when given.
std::vector<std::filesystem::path> coverable(const std::vector<std::filesystem::path>& wanted,
                                             const std::vector<std::filesystem::path>& needed,
                                             const std::vector<std::filesystem::path>& whole,
                                             std::vector<std::filesystem::path>* open = nullptr);

// Whether `path` is one of `folders` or lies below one.
bool lies_in(const std::filesystem::path& path, const std::vector<std::filesystem::path>& folders);

}  // namespace anneal::evaluator
