// One run at a time times on a GPU, across all anneal processes of the machine and all its users.
#pragma once

#include <string>

#include "evaluator/daemon/unique_fd.h"

namespace anneal::evaluator {

class GpuLock {
 public:
  // By the GPU's own id (hex), since CUDA_VISIBLE_DEVICES renumbers them. Throws std::runtime_error when the lock file
  // in the folder for temporary files cannot be opened.
  explicit GpuLock(const std::string& uuid);

  class Held {
   public:
    ~Held();
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;

   private:
    friend class GpuLock;
    explicit Held(int fd) : fd_(fd) {}
    int fd_;
  };

  // Waits for it. Throws MachineFault when another process has held it for half an hour.
  [[nodiscard]] Held hold();

 private:
  UniqueFd file_;
};

}  // namespace anneal::evaluator
