// Values: one output of a candidate against what it should be. Structure (type, shape, dtype, aliasing) is checked
// before.
#pragma once

#include <ATen/ATen.h>

#include <optional>
#include <string>
#include <vector>

#include "evaluator/verdict.h"

namespace anneal::evaluator {

struct Thresholds {  // quantization: all three at once (KernelBench-X)
  double cosine = 0.95;
  double l1_relative = 0.05;
  double rmse = 0.10;
};

struct ComparisonRule {
  enum class Kind { tolerance, exact, quantization } kind = Kind::tolerance;
  Thresholds thresholds;
  double reduction = 1;     // K: length of the longest sum behind one output element
  double error_growth = 4;  // kappa: how much more than one rounding an honest chain of operations may err
};

// What one output should be. All on the candidate's device.
struct Expected {
  at::Tensor published;              // the reference in the task's own dtype
  at::Tensor exact;                  // the reference on inputs widened to fp64
  std::optional<at::Tensor> scheme;  // quantization: the task's own scheme, computed exactly
};

// `got` has the shape and dtype of `expected.published`. Fills ok (published rule), strict_ok (fp64 rule),
// failure_class, message and the figures; `name` and `inputs` are the caller's.
//
// Published: |got - ref| <= t + t |ref| with t = 1e-5 (fp32, fp64), 5e-3 (fp16, bf16), 0 (integers); NaN equals NaN.
// Strict, with E(v) the RMSE against `exact` over the whole tensor and over each block of at least 1024 elements:
//   E(got) <= max(3 E(published), rms(exact) (kappa eps sqrt(K) + u)),
//   max|got - exact| <= max(4 max|published - exact|, 8 (kappa eps sqrt(K) rms(exact) + u max|exact|)),
// eps = 2^-23 of the fp32 accumulator (2^-52 for fp64), u = unit roundoff of the output's dtype. docs/metrics.md
// derives it. Quantization: cosine, relative L1 and RMSE within the thresholds, but never tighter than 1.25 times the
// error of `scheme`; an RMSE below 0.5 times the scheme's own is `not_quantized`, and so is, from 65,536 elements on,
// a scheme_distance above `most_scheme_distance`. scheme_distance = rms(got - scheme) / rms(scheme - exact), the
// divisor being at least rms(exact) (kappa eps sqrt(K) + u); absent when it is not finite.
CaseVerdict compare_output(const at::Tensor& got, const Expected& expected, const ComparisonRule& rule);

// The RMS of the cases' scheme_distance: few elements and outliers scatter it, so that small cases are judged together.
// Empty when no case has one.
std::optional<double> pooled_scheme_distance(const std::vector<CaseVerdict>& cases);

// What to tell of a distance above `most_scheme_distance`.
std::string not_the_scheme(double distance);

// Measured over 1,500 draws of the cases of matmul_w8a8 (docs/metrics.md): at most 0.45 for kernels that round as the
// scheme says, at least 0.60 for those that round one side only; 1 without rounding, 1.3 to 1.7 for noise.
inline constexpr double most_scheme_distance = 0.5;
// Beyond it the errors are larger than quantization's, whatever made them.
inline constexpr double most_quantization_distance = 2;

// The class of a mismatch, from where the wrong elements lie (docs/metrics.md, "Failure classes"). `wrong` is a bool
// tensor of the outputs' shape with at least one true element.
std::string class_of_mismatch(const at::Tensor& got, const at::Tensor& published, const at::Tensor& wrong,
                              double reduction);

}  // namespace anneal::evaluator
