#include "evaluator/daemon/null_answers.h"

#include <algorithm>
#include <functional>

namespace anneal::evaluator {

namespace {

// fp32 with ten fraction bits left, to nearest even: what a tensor core reads of it as TF32.
at::Tensor rounded_to_tf32(const at::Tensor& values) {
  const at::Tensor bits = values.contiguous().view(at::kInt);
  const at::Tensor odd = bits.bitwise_right_shift(13).bitwise_and(1);
  const at::Tensor rounded = (bits + 0xFFF + odd).bitwise_and(~0x1FFF).view(at::kFloat);
  return at::where(values.isfinite(), rounded, values);
}

// Copies, each floating-point tensor of dtype `from` changed by `round`.
std::vector<Argument> changed(const std::vector<Argument>& arguments, at::ScalarType from,
                              const std::function<at::Tensor(const at::Tensor&)>& round) {
  std::vector<Argument> copies = arguments;
  for (Argument& one : copies) {
    if (!one.tensor) continue;
    one.tensor = one.tensor->scalar_type() == from ? round(*one.tensor) : one.tensor->clone();
  }
  return copies;
}

// The far end of the flat output: a forgotten last block, or a mask that is one too short.
std::int64_t tile_of(std::int64_t numel) {
  return std::max({std::min<std::int64_t>(64, (numel + 3) / 4), numel / 1024, std::int64_t{1}});
}

class Maker {
 public:
  Maker(SuiteTask& task, const std::vector<Argument>& arguments, const std::vector<Expected>& expected)
      : task_(task), arguments_(arguments), expected_(expected) {}

  std::vector<NullAnswer> make(bool rounded) {
    for (std::size_t i = 0; i < expected_.size(); ++i) {
      if (expected_[i].published.numel() == 0) continue;
      without_work(i);
      passed_through(i);
      tile_missing(i);
    }
    if (rounded) of_lower_precision();
    return std::move(answers_);
  }

 private:
  void add(const std::string& name, std::size_t output, at::Tensor value, bool every_case = true) {
    const at::Tensor& wanted = expected_[output].published;
    answers_.push_back({name, output, value.to(wanted.device(), wanted.scalar_type()), "", false, every_case});
  }
  void skip(const std::string& name, std::size_t output, const std::string& reason, bool misfit = false) {
    answers_.push_back({name, output, std::nullopt, reason, misfit, true});
  }

  void without_work(std::size_t i) {
    const at::Tensor& wanted = expected_[i].published;
    add("zeros", i, at::zeros_like(wanted));
    if (wanted.numel() == 1) {
      skip("the mean everywhere", i, "the output is one number");
    } else {
      const at::Tensor values = wanted.to(at::kDouble);
      at::Tensor mean = values.isfinite().all().item<bool>() ? values.mean() : at::zeros({}, values.options());
      if (!at::isFloatingType(wanted.scalar_type())) mean = mean.round();
      add("the mean everywhere", i, mean.expand(wanted.sizes()).contiguous());
    }
    if (expected_[i].scheme) add("the unquantised result", i, wanted);
  }

  void passed_through(std::size_t i) {
    const at::Tensor& wanted = expected_[i].published;
    for (const Argument& one : arguments_) {
      if (!one.tensor) continue;
      const std::string name = one.name + " passed through";
      if (one.tensor->numel() == wanted.numel()) {
        add(name, i, one.tensor->reshape(wanted.sizes()).clone());
      } else {
        skip(name, i, "it has not as many elements as the output", /*misfit=*/true);
      }
    }
  }

  void tile_missing(std::size_t i) {
    const at::Tensor& wanted = expected_[i].published;
    const std::int64_t tile = tile_of(wanted.numel());
    const auto with_tile = [&](const at::Tensor& fill) {
      at::Tensor value = wanted.contiguous().clone();
      value.view({-1}).slice(0, wanted.numel() - tile).copy_(fill);
      return value;
    };
    add("the last tile zero", i, with_tile(at::zeros({}, wanted.options())));
    at::Tensor poison = at::ones({1}, wanted.options());
    if (wanted.scalar_type() != at::kBool) poison.view(at::kByte).fill_(0xff);  // as in the poisoned arena (arena.h)
    add("the last tile unwritten", i, with_tile(poison));
  }

  void of_lower_precision() {
    const at::ScalarType dtype = expected_.front().published.scalar_type();
    if (!at::isFloatingType(dtype)) {
      skip("lower precision", 0, "the result is an index, which rounded inputs need not change");
      return;
    }
    // The whole computation in a shorter dtype, or on inputs that a shorter dtype holds.
    const auto in_dtype = [this, dtype](const char* name, at::ScalarType shorter) {
      run(name, changed(arguments_, dtype, [shorter](const at::Tensor& x) { return x.to(shorter); }));
    };
    const auto on_inputs = [this, dtype](const char* name, at::ScalarType shorter) {
      run(name, changed(arguments_, dtype, [&](const at::Tensor& x) { return x.to(shorter).to(dtype); }));
    };
    if (dtype == at::kFloat) {
      in_dtype("computed in fp16", at::kHalf);
      in_dtype("computed in bf16", at::kBFloat16);
      run("computed on TF32 inputs", changed(arguments_, dtype, rounded_to_tf32));
    } else if (dtype == at::kHalf) {
      on_inputs("computed on bf16 inputs", at::kBFloat16);
      in_own_precision();
    } else if (dtype == at::kBFloat16) {
      on_inputs("computed on fp8 inputs", at::kFloat8_e4m3fn);
      in_own_precision();
    } else {
      skip("lower precision", 0, std::string("none is known below ") + at::toString(dtype));
    }
  }

  void run(const std::string& name, const std::vector<Argument>& arguments) {
    std::vector<at::Tensor> outputs;
    try {
      outputs = task_.reference(arguments);
    } catch (const MachineFault& fault) {
      const std::string text = fault.what();
      for (std::size_t i = 0; i < expected_.size(); ++i) {
        skip(name, i, "the reference does not run so here: " + text.substr(0, text.find('\n')));
      }
      return;
    }
    for (std::size_t i = 0; i < expected_.size(); ++i) add(name, i, outputs.at(i));
  }

  void in_own_precision() {
    const char* name = "every step in its own precision";
    const auto outputs =
        task_.low_precision(changed(arguments_, at::kFloat, [](const at::Tensor& x) { return x.clone(); }));
    for (std::size_t i = 0; i < expected_.size(); ++i) {
      if (outputs) {
        add(name, i, outputs->at(i), /*every_case=*/false);
      } else {
        skip(name, i, "the task file defines no low_precision");
      }
    }
  }

  SuiteTask& task_;
  const std::vector<Argument>& arguments_;
  const std::vector<Expected>& expected_;
  std::vector<NullAnswer> answers_;
};

}  // namespace

std::vector<NullAnswer> null_answers(SuiteTask& task, const std::vector<Argument>& arguments,
                                     const std::vector<Expected>& expected, bool rounded) {
  return Maker(task, arguments, expected).make(rounded);
}

}  // namespace anneal::evaluator
