#include "evaluator/daemon/answer.h"

#include <algorithm>
#include <limits>
#include <sstream>
#include <stdexcept>

#include "evaluator/whole_number.h"

namespace anneal::evaluator {
namespace {

using nlohmann::json;

Answer refuse(const char* failure_class, std::string message) { return {{}, failure_class, std::move(message)}; }

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string changed_input(const PlacedArguments& placed, Arena& arena, const std::vector<std::string>& in_place,
                          int device) {
  for (std::size_t i = 0; i < placed.arguments.size(); ++i) {
    const Argument& one = placed.arguments[i];
    if (!one.tensor || contains(in_place, one.name)) continue;
    if (!same_bytes(flat_span(placed.in(arena, i, device)), flat_span(*one.tensor))) return one.name;
  }
  return "";
}

std::size_t position_of(const std::string& name, const PlacedArguments& placed, const SuiteTask& task) {
  for (std::size_t i = 0; i < placed.arguments.size(); ++i) {
    if (placed.arguments[i].name == name) return i;
  }
  throw MachineFault("task file " + task.file() + ": in_place names " + name + ", which no case passes");
}

// What is wrong with one described output, or an Answer that is not refused and `layout`.
Answer check_structure(const json& one, const at::Tensor& wanted, TensorLayout& layout) {
  if (one.at("kind") != "tensor")
    return refuse("wrong_dtype", "returned a " + one.value("type", "?") + ", not a torch.Tensor");
  const auto shape = whole_numbers<std::int64_t>(one.at("shape"));
  if (at::IntArrayRef(shape) != wanted.sizes()) {
    std::ostringstream text;
    text << "returned shape " << at::IntArrayRef(shape) << ", expected " << wanted.sizes();
    return refuse("wrong_shape", text.str());
  }
  if (one.at("dtype") != dtype_name(wanted.scalar_type())) {
    return refuse("wrong_dtype",
                  "returned dtype " + one.value("dtype", "?") + ", expected " + dtype_name(wanted.scalar_type()));
  }
  if (one.at("device") != wanted.device().str() || !one.value("plain", false)) {
    return refuse("wrong_dtype", "returned a tensor on " + one.value("device", "?") + ", expected a plain one on " +
                                     wanted.device().str());
  }
  if (one.value("aliases_input", true)) return refuse("aliased", "the output shares memory with an input");
  try {  // its own description may be hostile
    layout = layout_from_json(one, std::numeric_limits<std::size_t>::max());
  } catch (const std::invalid_argument&) {
    return refuse("wrong_shape", "returned a tensor with impossible strides");
  }
  if (wanted.numel() > 0 && layout.span() < wanted.numel()) {
    return refuse("wrong_shape", "the output's strides overlap: it holds fewer elements than its shape says");
  }
  return {};
}

}  // namespace

Answer collect(CandidateHandle& candidate, const json& reply, const PlacedArguments& placed,
               const std::vector<Expected>& expected, SuiteTask& task, int device, double seconds) {
  const std::vector<std::string>& in_place = task.rules().in_place;
  const json& described = reply.at("outputs");
  const std::size_t returned = expected.size() - in_place.size();
  if (described.size() != returned) {
    return refuse("wrong_shape",
                  "returned " + std::to_string(described.size()) + " outputs, expected " + std::to_string(returned));
  }
  json offsets = json::array();
  std::size_t bytes = 0;
  std::vector<TensorLayout> layouts;
  for (std::size_t i = 0; i < returned; ++i) {
    const at::Tensor& wanted = expected[i].published;
    TensorLayout layout;
    if (Answer wrong = check_structure(described[i], wanted, layout); wrong.refused()) return wrong;
    layout.strides = at::empty(wanted.sizes(), at::TensorOptions().device(at::kMeta)).strides().vec();
    layout.offset = bytes;
    offsets.push_back(bytes);
    bytes += align_up(layout.bytes());
    layouts.push_back(layout);
  }
  Arena& inputs = candidate.inputs(0);
  if (const std::string changed = changed_input(placed, inputs, in_place, device); !changed.empty()) {
    return refuse("mutated_input", "the kernel wrote to its input " + changed);
  }
  Arena& arena = candidate.outputs(std::max<std::size_t>(bytes, 1));
  arena.poison(0, bytes);
  candidate.ask({{"op", "collect"}, {"offsets", offsets}}, seconds);
  Answer answer;
  for (const TensorLayout& layout : layouts) {
    answer.outputs.push_back(tensor_at(arena.data(), layout, device).clone());
  }
  for (const std::string& name : in_place) {
    answer.outputs.push_back(placed.in(inputs, position_of(name, placed, task), device).clone());
  }
  return answer;
}

}  // namespace anneal::evaluator
