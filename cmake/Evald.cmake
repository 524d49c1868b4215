# anneal-evald: against the libtorch and CPython of ANNEAL_PYTHON. find_package(Torch) of a CUDA wheel stops where no toolkit
# is installed, so the wheel's libraries are an imported target of our own.
if(NOT ANNEAL_PYTHON)
  message(STATUS "ANNEAL_PYTHON is not set: anneal-evald is left out (tools/build sets it)")
  return()
endif()

execute_process(COMMAND ${ANNEAL_PYTHON} -c "
import sysconfig, torch, os
print(os.path.dirname(torch.__file__)); print(sysconfig.get_path('include'))
print(sysconfig.get_config_var('LIBDIR')); print(sysconfig.get_config_var('LDVERSION'))
print(int(torch.compiled_with_cxx11_abi()))"
  OUTPUT_VARIABLE python_facts OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
string(REPLACE "\n" ";" python_facts "${python_facts}")
list(GET python_facts 0 torch_folder)
list(GET python_facts 1 python_include)
list(GET python_facts 2 python_libdir)
list(GET python_facts 3 python_version)
list(GET python_facts 4 torch_cxx11_abi)
if(NOT torch_cxx11_abi)
  message(FATAL_ERROR "torch at ${torch_folder} was built with the old C++ ABI; use the PyPI wheel of torch 2.7 or later")
endif()
find_library(PYTHON_LIB python${python_version} HINTS ${python_libdir} ${python_libdir}/x86_64-linux-gnu NO_CACHE REQUIRED)

add_library(anneal_torch INTERFACE)
target_include_directories(anneal_torch SYSTEM INTERFACE ${torch_folder}/include
  ${torch_folder}/include/torch/csrc/api/include ${python_include})
target_link_directories(anneal_torch INTERFACE ${torch_folder}/lib)
target_link_options(anneal_torch INTERFACE -Wl,-rpath,${torch_folder}/lib -Wl,--no-as-needed)
# libstdc++ first: libtorch.so exports an older std::filesystem of its own, whose remove_all calls through null.
target_link_libraries(anneal_torch INTERFACE stdc++ torch_python torch torch_cpu c10 ${PYTHON_LIB})

file(GLOB evald_sources CONFIGURE_DEPENDS evaluator/daemon/*.cpp)
list(FILTER evald_sources EXCLUDE REGEX "daemon/(asan_options|gpu_absent|main)\\.cpp$")

find_program(NVCC nvcc HINTS /usr/local/cuda/bin)
if(NVCC)
  set(CMAKE_CUDA_COMPILER ${NVCC})
  set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90 CACHE STRING "CUDA architectures of the timer")
  enable_language(CUDA)
  set(CMAKE_CUDA_STANDARD 17)  # CMake 3.25 knows no C++20 for nvcc 13
  list(APPEND evald_sources evaluator/daemon/gpu.cu)
  find_package(CUDAToolkit REQUIRED)
  set(cuda_runtime CUDA::cudart_static)
else()
  message(STATUS "nvcc was not found: anneal-evald has no GPU side")
  list(APPEND evald_sources evaluator/daemon/gpu_absent.cpp)
endif()

add_library(anneal_evald_parts STATIC ${evald_sources})
target_link_libraries(anneal_evald_parts PUBLIC anneal_warnings anneal_protocol anneal_torch ${cuda_runtime})
set_target_properties(anneal_evald_parts PROPERTIES CUDA_RUNTIME_LIBRARY Static)
# ATen's headers shadow; pybind11's types are hidden, and g++ wants the types that hold them to be so too.
target_compile_options(anneal_evald_parts PUBLIC $<$<COMPILE_LANGUAGE:CXX>:-Wno-shadow -fvisibility=hidden>)

if(ANNEAL_SANITIZE MATCHES "address")  # for its own tests: a candidate has no limit on address space in it
  target_compile_definitions(anneal_evald_parts PRIVATE ANNEAL_ADDRESS_SANITIZER)
  target_sources(anneal_evald_parts INTERFACE ${CMAKE_SOURCE_DIR}/evaluator/daemon/asan_options.cpp)
endif()

add_executable(anneal-evald evaluator/daemon/main.cpp)
target_link_libraries(anneal-evald PRIVATE anneal_evald_parts)
set_target_properties(anneal-evald PROPERTIES CUDA_RUNTIME_LIBRARY Static)
target_compile_definitions(anneal-evald PRIVATE ANNEAL_PYTHON="${ANNEAL_PYTHON}"
  ANNEAL_EVALUATOR_PYTHON="${CMAKE_SOURCE_DIR}/evaluator/python")
