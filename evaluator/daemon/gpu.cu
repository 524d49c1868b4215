#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <stdexcept>
#include <utility>

#include "evaluator/daemon/gpu.h"

namespace anneal::evaluator::gpu {

namespace {

void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
}

void check(CUresult status, const char* what) {
  if (status != CUDA_SUCCESS) {
    throw std::runtime_error(std::string(what) + ": CUDA driver error " + std::to_string(static_cast<int>(status)));
  }
}

// The driver's entry points are looked up at run time, so that the program also starts where no driver is installed.
template <class F>
F driver(const char* name) {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult result{};
  check(cudaGetDriverEntryPointByVersion(name, &entry, 12000, cudaEnableDefault, &result), name);
  if (entry == nullptr) throw std::runtime_error(std::string("the CUDA driver lacks ") + name);
  return reinterpret_cast<F>(entry);
}

CUmemAllocationProp shared_properties(int device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  return properties;
}

std::size_t rounded_up(int device, std::size_t bytes) {
  const CUmemAllocationProp properties = shared_properties(device);
  std::size_t granularity = 0;
  check(driver<decltype(&cuMemGetAllocationGranularity)>("cuMemGetAllocationGranularity")(
            &granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
        "cuMemGetAllocationGranularity");
  return (bytes + granularity - 1) / granularity * granularity;
}

void map(SharedBlock& block, int device) {
  CUdeviceptr address = 0;
  check(driver<decltype(&cuMemAddressReserve)>("cuMemAddressReserve")(&address, block.mapped_bytes, 0, 0, 0),
        "cuMemAddressReserve");
  check(driver<decltype(&cuMemMap)>("cuMemMap")(address, block.mapped_bytes, 0, block.handle, 0), "cuMemMap");
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  check(driver<decltype(&cuMemSetAccess)>("cuMemSetAccess")(address, block.mapped_bytes, &access, 1), "cuMemSetAccess");
  block.address = reinterpret_cast<void*>(address);
}

__device__ unsigned long long nanoseconds() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

// Holds the whole device until the host raises *flag, so that what is enqueued meanwhile runs without launch gaps, and
// nothing of it, on no stream, runs before. Launched with as many blocks of block_threads as fit: no other kernel finds
// a free thread slot. Block 0 watches the host's memory, the others *gate, which it sets to `turn`. Gives up after
// `limit_ns` (a call that waits for the device would deadlock otherwise) and then sets *expired.
constexpr int block_threads = 512;
__global__ void __launch_bounds__(block_threads)
    block_until(volatile int* flag, volatile int* expired, volatile int* gate, int turn, unsigned long long limit_ns) {
  if (threadIdx.x == 0) {
    const unsigned long long start = nanoseconds();
    if (blockIdx.x == 0) {
      while (*flag == 0) {
        if (nanoseconds() - start > limit_ns) {
          *expired = 1;
          __threadfence_system();
          break;
        }
      }
      *gate = turn;
      __threadfence();
    } else {
      while (*gate != turn && nanoseconds() - start < 2 * limit_ns) {
      }
    }
  }
  __syncthreads();
}

// XOR with a stream of splitmix64 (Steele, Lea and Flood 2014) over the index and the key: the same twice is nothing.
__global__ void xor_all(unsigned long long* data, std::size_t words, unsigned long long key) {
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < words; i += stride) {
    unsigned long long z = key + (i + 1) * 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    data[i] ^= z ^ (z >> 31);
  }
}

__global__ void write_all(unsigned int* data, std::size_t words, unsigned int salt) {
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < words; i += stride) {
    data[i] = static_cast<unsigned int>(i) * 2654435761u ^ salt;
  }
}

class EventTimer : public Timer {
  using clock = std::chrono::steady_clock;

 public:
  EventTimer(int device, std::vector<std::uintptr_t> watched) {
    for (const std::uintptr_t one : watched) watched_.push_back(reinterpret_cast<cudaStream_t>(one));
    check(cudaSetDevice(device), "cudaSetDevice");
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
    // Twice the L2, and at least 128 MiB: evaluation reads as if from memory.
    flush_words_ = std::max<std::size_t>(2 * static_cast<std::size_t>(properties.l2CacheSize), 128u << 20) / 4;
    check(cudaMalloc(&flush_, flush_words_ * 4), "flush buffer");
    check(cudaHostAlloc(&flags_, 2 * sizeof(int), cudaHostAllocMapped), "flags");
    check(cudaMalloc(&gate_, sizeof(int)), "gate");
    check(cudaMemset(gate_, 0, sizeof(int)), "gate");
    check(cudaEventCreate(&begin_), "cudaEventCreate");
    check(cudaEventCreate(&end_), "cudaEventCreate");
    check(cudaEventCreateWithFlags(&joined_, cudaEventDisableTiming), "cudaEventCreate");
    blocks_ = properties.multiProcessorCount * (properties.maxThreadsPerMultiProcessor / block_threads);
    idle_sync_ns_ = measure_idle_sync();
  }
  ~EventTimer() override {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
    cudaEventDestroy(joined_);
    cudaFreeHost(const_cast<int*>(flags_));
    cudaFree(gate_);
    cudaFree(flush_);
  }
  EventTimer(const EventTimer&) = delete;
  EventTimer& operator=(const EventTimer&) = delete;

  void warm(const std::function<void()>& call, int calls, double max_seconds) override {
    const clock::time_point start = clock::now();
    for (int i = 0; i < calls && std::chrono::duration<double>(clock::now() - start).count() < max_seconds; ++i) {
      call();
      check(cudaDeviceSynchronize(), "warm call");
    }
  }

  Sample measure(const std::function<void()>& call) override {
    // A persisting carve-out would survive the flush. Not every device has one.
    if (cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, 0) != cudaSuccess) cudaGetLastError();
    if (cudaCtxResetPersistingL2Cache() != cudaSuccess) cudaGetLastError();
    write_all<<<1024, 256>>>(static_cast<unsigned int*>(flush_), flush_words_, ++salt_);
    check(cudaDeviceSynchronize(), "flush");
    flags_[0] = 0;
    flags_[1] = 0;
    block_until<<<blocks_, block_threads>>>(flags_, flags_ + 1, gate_, ++turn_, block_limit_ns);
    check(cudaEventRecord(begin_), "cudaEventRecord");
    const clock::time_point launch = clock::now();
    call();
    Sample sample;
    sample.side_streams = join_watched_streams();
    check(cudaEventRecord(end_), "cudaEventRecord");
    // A cold CPU needs up to 400 us to enqueue; an event that starts late would time the queue (docs/measurements.md).
    while (clock::now() - launch < std::chrono::microseconds(min_block_us)) {
    }
    flags_[0] = 1;
    check(cudaEventSynchronize(end_), "timed call");
    const clock::time_point ended = clock::now();
    check(cudaDeviceSynchronize(), "timed call");
    const double busy_ns = nanoseconds_since(ended) - idle_sync_ns_;
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin_, end_), "cudaEventElapsedTime");
    sample.event_ns = static_cast<double>(milliseconds) * 1e6;
    if (busy_ns > most_jitter_ns) {
      sample.after_ns = busy_ns;
      sample.side_streams = true;
    }
    sample.needs_sync = flags_[1] != 0;
    return sample;
  }

 private:
  static constexpr unsigned long long block_limit_ns = 50'000'000;
  static constexpr int min_block_us = 400;
  // A host takes 5 to 6 us more for a synchronisation in one thread than in another, for as long as both live. Adding
  // that to the event's time made baselines and candidates up to 7 us slower (docs/measurements.md).
  static constexpr double most_jitter_ns = 50'000;

  static double nanoseconds_since(clock::time_point start) {
    return std::chrono::duration<double, std::nano>(clock::now() - start).count();
  }

  // The device is held, so all that the call enqueued is still to be done, and a stream with work of the call's tells
  // so. Has the current stream wait for it, by the device's clock instead of the host's. Whether there was any.
  bool join_watched_streams() {
    bool any = false;
    for (const cudaStream_t one : watched_) {
      const cudaError_t status = cudaStreamQuery(one);
      if (status == cudaSuccess) continue;
      if (status != cudaErrorNotReady) check(status, "cudaStreamQuery");
      cudaGetLastError();
      check(cudaEventRecord(joined_, one), "cudaEventRecord");
      check(cudaStreamWaitEvent(nullptr, joined_, 0), "cudaStreamWaitEvent");
      any = true;
    }
    return any;
  }

  // What a synchronisation takes when nothing is left to wait for: the median of 33.
  double measure_idle_sync() {
    std::array<double, 33> samples{};
    for (double& one : samples) {
      check(cudaEventRecord(end_), "cudaEventRecord");
      check(cudaEventSynchronize(end_), "idle device");
      const clock::time_point start = clock::now();
      check(cudaDeviceSynchronize(), "idle device");
      one = nanoseconds_since(start);
    }
    std::sort(samples.begin(), samples.end());
    return samples[samples.size() / 2];
  }

  void* flush_ = nullptr;
  std::size_t flush_words_ = 0;
  volatile int* flags_ = nullptr;
  int* gate_ = nullptr;
  int turn_ = 0, blocks_ = 0;
  double idle_sync_ns_ = 0;
  cudaEvent_t begin_{}, end_{}, joined_{};
  std::vector<cudaStream_t> watched_;
  unsigned int salt_ = 0;
};

}  // namespace

bool built_in() { return true; }
bool simulated() { return false; }

DeviceProperties open_device(int device) {
  int count = 0;
  check(cudaGetDeviceCount(&count), "no CUDA device can be used");
  if (device >= count) {
    throw std::runtime_error("cuda:" + std::to_string(device) + " does not exist; this machine has " +
                             std::to_string(count) + " CUDA device(s)");
  }
  check(cudaSetDevice(device), "cudaSetDevice");
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  int version = 0;
  check(cudaDriverGetVersion(&version), "cudaDriverGetVersion");
  int clock_khz = 0, bus_bits = 0;
  if (cudaDeviceGetAttribute(&clock_khz, cudaDevAttrMemoryClockRate, device) != cudaSuccess ||
      cudaDeviceGetAttribute(&bus_bits, cudaDevAttrGlobalMemoryBusWidth, device) != cudaSuccess) {
    cudaGetLastError();
    clock_khz = 0;
  }
  std::string uuid;
  for (const char byte : properties.uuid.bytes) {
    constexpr char hex[] = "0123456789abcdef";
    uuid += hex[static_cast<unsigned char>(byte) >> 4];
    uuid += hex[static_cast<unsigned char>(byte) & 15];
  }
  return {properties.name, uuid, static_cast<std::size_t>(properties.l2CacheSize), version,
          2.0 * clock_khz * 1e3 * bus_bits / 8};  // two transfers a clock
}

SharedBlock allocate_shared(int device, std::size_t bytes) {
  SharedBlock block;
  block.bytes = bytes;
  block.mapped_bytes = rounded_up(device, bytes);
  const CUmemAllocationProp properties = shared_properties(device);
  check(driver<decltype(&cuMemCreate)>("cuMemCreate")(&block.handle, block.mapped_bytes, &properties, 0),
        "cuMemCreate");
  map(block, device);
  return block;
}

SharedBlock import_shared(int device, int descriptor, std::size_t bytes) {
  check(cudaSetDevice(device), "cudaSetDevice");
  check(cudaFree(nullptr), "CUDA context");
  SharedBlock block;
  block.bytes = bytes;
  block.mapped_bytes = rounded_up(device, bytes);
  check(driver<decltype(&cuMemImportFromShareableHandle)>("cuMemImportFromShareableHandle")(
            &block.handle, reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor)),
            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
        "cuMemImportFromShareableHandle");
  map(block, device);
  return block;
}

int export_descriptor(const SharedBlock& block) {
  int descriptor = -1;
  check(driver<decltype(&cuMemExportToShareableHandle)>("cuMemExportToShareableHandle")(
            &descriptor, block.handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
        "cuMemExportToShareableHandle");
  return descriptor;
}

void release(const SharedBlock& block) noexcept {
  try {
    const auto address = reinterpret_cast<CUdeviceptr>(block.address);
    driver<decltype(&cuMemUnmap)>("cuMemUnmap")(address, block.mapped_bytes);
    driver<decltype(&cuMemAddressFree)>("cuMemAddressFree")(address, block.mapped_bytes);
    driver<decltype(&cuMemRelease)>("cuMemRelease")(block.handle);
  } catch (const std::exception&) {
    // The driver is gone, and the memory with it.
  }
}

void fill(void* address, unsigned char value, std::size_t bytes) {
  check(cudaMemset(address, value, bytes), "cudaMemset");
  check(cudaDeviceSynchronize(), "cudaMemset");
}

void synchronise() { check(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); }

void scramble(void* address, std::size_t bytes, std::uint64_t key) {
  xor_all<<<1024, 256>>>(static_cast<unsigned long long*>(address), bytes / 8, key);
  check(cudaDeviceSynchronize(), "scramble");
}

std::unique_ptr<Timer> Timer::create(int device, std::vector<std::uintptr_t> watched) {
  return std::make_unique<EventTimer>(device, std::move(watched));
}

}  // namespace anneal::evaluator::gpu
