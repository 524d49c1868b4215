#include "evaluator/daemon/compare.h"

#include <algorithm>
#include <cmath>
#include <sstream>

namespace anneal::evaluator {

namespace {

double item(const at::Tensor& scalar) { return scalar.to(at::kDouble).item<double>(); }

double published_tolerance(at::ScalarType dtype) {
  if (dtype == at::kHalf || dtype == at::kBFloat16) return 5e-3;
  return at::isFloatingType(dtype) ? 1e-5 : 0;
}

double unit_roundoff(at::ScalarType dtype) {
  switch (dtype) {
    case at::kHalf:
      return std::ldexp(1.0, -11);
    case at::kBFloat16:
      return std::ldexp(1.0, -8);
    case at::kFloat:
      return std::ldexp(1.0, -24);
    default:
      return std::ldexp(1.0, -53);
  }
}

// Where the two differ beyond the published tolerance. Infinities must be the same ones, NaN equals NaN.
at::Tensor wrong_elements(const at::Tensor& got, const at::Tensor& published, double tolerance) {
  if (tolerance == 0) return got.ne(published);
  const at::Tensor a = got.to(at::kDouble), b = published.to(at::kDouble);
  return at::isclose(a, b, tolerance, tolerance, /*equal_nan=*/true).logical_not();
}

// Of the scheme's RMSE. Rounding one side only makes 0.7 of it, a product in bf16 up to 0.35 (eight-bit integers).
constexpr double least_share_of_scheme = 0.5;

struct Errors {
  double cosine, l1_relative, rmse;
};

Errors quantization_errors(const at::Tensor& got, const at::Tensor& exact) {
  const at::Tensor a = got.to(at::kDouble).flatten(), b = exact.to(at::kDouble).flatten();
  const double norms = item(a.norm()) * item(b.norm());
  const double cosine = norms > 0 ? item(a.dot(b)) / norms : (item(a.norm()) == item(b.norm()) ? 1.0 : 0.0);
  const at::Tensor difference = a - b;
  return {cosine, item(difference.abs().sum()) / std::max(item(b.abs().sum()), 1e-12),
          std::sqrt(item(difference.square().mean()))};
}

double rms(const at::Tensor& values) { return values.numel() == 0 ? 0 : std::sqrt(item(values.square().mean())); }

// kappa eps sqrt(K): what an honest chain of operations may err, relative to the RMS of the result.
double rounding_growth(at::ScalarType dtype, const ComparisonRule& rule) {
  const double eps = dtype == at::kDouble ? std::ldexp(1.0, -52) : std::ldexp(1.0, -23);
  return rule.error_growth * eps * std::sqrt(std::max(rule.reduction, 1.0));
}

// Elements from which on one case tells the scheme's errors from others.
constexpr std::int64_t enough_for_one_case = 1 << 16;

// How far `got` is from the task's scheme, in units of the scheme's own error; empty when that is not finite.
std::optional<double> distance_of_scheme(const at::Tensor& got, const Expected& expected, const ComparisonRule& rule) {
  const auto dtype = expected.published.scalar_type();
  const at::Tensor scheme = expected.scheme->to(at::kDouble), exact = expected.exact.to(at::kDouble);
  const double rounding = rms(exact) * (rounding_growth(dtype, rule) + unit_roundoff(dtype));
  const double unit = std::max({rms(scheme - exact), rounding, 1e-300});
  const double distance = rms(got.to(at::kDouble) - scheme) / unit;
  return std::isfinite(distance) ? std::optional(distance) : std::nullopt;
}

// The strict rule; empty when it holds, else what broke it.
std::string strict_violation(const at::Tensor& got, const Expected& expected, const ComparisonRule& rule) {
  const auto dtype = expected.published.scalar_type();
  if (!at::isFloatingType(dtype)) return at::equal(got, expected.published) ? "" : "integer values differ";
  const at::Tensor a = got.to(at::kDouble), torch = expected.published.to(at::kDouble);
  at::Tensor exact = expected.exact.to(at::kDouble);
  if (!at::equal(a.isnan(), torch.isnan()) || !at::equal(a.isposinf(), torch.isposinf()) ||
      !at::equal(a.isneginf(), torch.isneginf())) {
    return "NaN or infinities in other places than PyTorch's";
  }
  const at::Tensor finite = torch.isfinite().logical_and(exact.isfinite());
  const at::Tensor zero = at::zeros({}, exact.options());
  exact = at::where(finite, exact, zero);
  const at::Tensor mine = at::where(finite, a - exact, zero).flatten();
  const at::Tensor torchs = at::where(finite, torch - exact, zero).flatten();
  const at::Tensor flat = exact.flatten();
  const double growth = rounding_growth(dtype, rule);
  const double u = unit_roundoff(dtype);

  const auto check = [&](std::int64_t begin, std::int64_t end, const char* where) -> std::string {
    const double error = rms(mine.slice(0, begin, end)), torch_error = rms(torchs.slice(0, begin, end));
    const double size = rms(flat.slice(0, begin, end));
    const double allowed = std::max(3 * torch_error, size * (growth + u));
    if (error <= allowed) return "";
    std::ostringstream text;
    text << "RMS error " << error << " against fp64 over " << where << "; PyTorch's own is " << torch_error
         << ", allowed " << allowed;
    return text.str();
  };
  std::string violation = check(0, flat.numel(), "the whole output");
  constexpr std::int64_t least = 1024;
  const std::int64_t block = std::max(least, flat.numel() / 256);
  for (std::int64_t begin = 0; violation.empty() && flat.numel() >= 2 * least && begin < flat.numel(); begin += block) {
    const std::int64_t end = std::min(flat.numel(), begin + block);  // the last one ends where the output does
    violation = check(end - block, end, "one block of it");
  }
  if (violation.empty() && flat.numel() > 0) {
    const double worst = item(mine.abs().max()), torch_worst = item(torchs.abs().max());
    const double floor = 8 * (growth * rms(flat) + u * item(flat.abs().max()));
    if (worst > std::max(4 * torch_worst, floor)) {
      std::ostringstream text;
      text << "largest error " << worst << " against fp64; PyTorch's own is " << torch_worst << ", allowed "
           << std::max(4 * torch_worst, floor);
      violation = text.str();
    }
  }
  return violation;
}

std::vector<WorstElement> worst_elements(const at::Tensor& got, const at::Tensor& published, const at::Tensor& wrong) {
  constexpr std::int64_t count = 5;
  const at::Tensor a = got.to(at::kDouble), b = published.to(at::kDouble);
  // Wrong elements first, the largest difference first; a NaN counts as infinitely far.
  at::Tensor distance = at::nan_to_num((a - b).abs(), HUGE_VAL, HUGE_VAL, HUGE_VAL);
  distance = at::where(wrong, distance, at::full({}, -1.0, distance.options())).flatten();
  const auto [values, places] = at::topk(distance, std::min(count, distance.numel()));
  std::vector<WorstElement> worst;
  for (std::int64_t i = 0; i < places.numel(); ++i) {
    if (values[i].item<double>() < 0) break;
    std::int64_t place = places[i].item<std::int64_t>();
    WorstElement element;
    element.expected = b.flatten()[place].item<double>();
    element.got = a.flatten()[place].item<double>();
    for (std::int64_t axis = published.dim() - 1; axis >= 0; --axis) {
      element.index.insert(element.index.begin(), place % published.size(axis));
      place /= published.size(axis);
    }
    worst.push_back(std::move(element));
  }
  return worst;
}

// Wrong elements fill only the far end along some axis: a missing mask or a forgotten last block.
bool wrong_only_at_the_end(const at::Tensor& wrong) {
  std::vector<at::Tensor> views = {wrong.flatten()};
  for (std::int64_t axis = 0; wrong.dim() > 1 && axis < wrong.dim(); ++axis) {
    std::vector<std::int64_t> others;
    for (std::int64_t i = 0; i < wrong.dim(); ++i) {
      if (i != axis) others.push_back(i);
    }
    views.push_back(wrong.any(others.front()));
    for (std::size_t i = 1; i < others.size(); ++i)
      views.back() = views.back().any(others[i] - static_cast<std::int64_t>(i));
  }
  for (const at::Tensor& view : views) {
    const std::int64_t size = view.numel();
    if (size < 4) continue;
    const std::int64_t first = view.to(at::kInt).argmax().item<std::int64_t>();
    const double filled = item(view.slice(0, first, size).to(at::kDouble).mean());
    if (first > 0 && 2 * first >= size && filled > 0.5) return true;
  }
  return false;
}

}  // namespace

std::string class_of_mismatch(const at::Tensor& got, const at::Tensor& published, const at::Tensor& wrong,
                              double reduction) {
  const double share = item(wrong.to(at::kDouble).mean());
  if (share < 1 && wrong_only_at_the_end(wrong)) return "tail";
  const at::Tensor a = got.to(at::kDouble).flatten(), b = published.to(at::kDouble).flatten();
  const at::Tensor mine = a.isfinite(), theirs = b.isfinite();
  const at::Tensor broken = theirs.logical_and(mine.logical_not());
  const double broken_share = item(broken.to(at::kDouble).mean());
  if (published.dim() > 0 && published.size(0) > 1 && mine.all().item<bool>() && item(a.abs().max()) > 0) {
    const auto rows_differ = [](const at::Tensor& values) {
      return rms(values.to(at::kDouble) - values.to(at::kDouble).select(0, 0).unsqueeze(0)) > 0;
    };
    if (!rows_differ(got) && rows_differ(published)) return "broadcast";
  }
  // What was never written still holds the poison, or whatever the allocator left there: large blocks, others right.
  const at::Tensor flat_wrong = wrong.flatten();
  if (share < 0.95 && flat_wrong.numel() >= 8) {
    const at::Tensor edges = flat_wrong.slice(0, 1).ne(flat_wrong.slice(0, 0, -1));
    const double runs = item(edges.to(at::kDouble).sum()) + 1;
    if (static_cast<double>(flat_wrong.numel()) * share / std::max(runs / 2, 1.0) >= 8) return "partial_coverage";
  }
  if (broken_share > 0) return "overflow_or_nan";
  const at::Tensor finite_a = at::nan_to_num(a, 0, 0, 0), finite_b = at::nan_to_num(b, 0, 0, 0);
  const double size = std::max(rms(finite_b), 1e-300);
  const auto sorted_difference = rms(std::get<0>(finite_a.sort()) - std::get<0>(finite_b.sort())) / size;
  if (b.numel() > 1 && sorted_difference < 1e-3 &&
      rms(finite_a - finite_b) / size > 10 * std::max(sorted_difference, 1e-9)) {
    return "layout";
  }
  const double relative = rms(finite_a - finite_b) / size;
  if (relative < 0.05) return "scale_or_cast";
  const double energy = item(finite_a.dot(finite_a));
  if (energy > 0 && b.numel() > 1) {
    const double factor = item(finite_a.dot(finite_b)) / energy;
    if (std::isfinite(factor) && rms(finite_b - factor * finite_a) / size < 0.02) {
      return reduction > 1 && std::abs(factor) > 1 ? "incomplete_reduction" : "scale_or_cast";
    }
  }
  const double cosine =
      energy > 0 ? item(finite_a.dot(finite_b)) / std::sqrt(energy) / (size * std::sqrt(static_cast<double>(b.numel())))
                 : 0;
  if (cosine > 0.97) return "scale_or_cast";
  if (reduction > 1) return "incomplete_reduction";
  return "other";
}

std::optional<double> pooled_scheme_distance(const std::vector<CaseVerdict>& cases) {
  double squares = 0;
  int count = 0;
  for (const CaseVerdict& one : cases) {
    if (!one.scheme_distance) continue;
    squares += *one.scheme_distance * *one.scheme_distance;
    ++count;
  }
  return count > 0 ? std::optional(std::sqrt(squares / count)) : std::nullopt;
}

std::string not_the_scheme(double distance) {
  std::ostringstream text;
  text << "the values are " << distance
       << " times the error of the task's own quantization away from what it gives (at most " << most_scheme_distance
       << "): they were not rounded as the task says";
  return text.str();
}

CaseVerdict compare_output(const at::Tensor& got, const Expected& expected, const ComparisonRule& rule) {
  CaseVerdict verdict;
  verdict.failure_class = "ok";
  const at::Tensor& published = expected.published;
  if (published.numel() == 0) {
    verdict.ok = verdict.strict_ok = true;
    return verdict;
  }
  const double tolerance = published_tolerance(published.scalar_type());
  const at::Tensor wrong = wrong_elements(got, published, tolerance);
  const std::int64_t count = wrong.sum().item<std::int64_t>();
  const at::Tensor difference =
      at::nan_to_num((got.to(at::kDouble) - published.to(at::kDouble)).abs(), HUGE_VAL, HUGE_VAL, HUGE_VAL);
  const at::Tensor both_nan = got.ne(got).logical_and(published.ne(published));
  const at::Tensor counted = at::where(both_nan, at::zeros({}, difference.options()), difference);
  verdict.max_abs = item(counted.max());
  verdict.max_rel = item((counted / published.to(at::kDouble).abs().clamp_min(1e-12)).nan_to_num(0, HUGE_VAL, 0).max());
  verdict.wrong_share = static_cast<double>(count) / static_cast<double>(published.numel());

  if (rule.kind == ComparisonRule::Kind::quantization) {
    const Errors mine = quantization_errors(got, expected.exact);
    verdict.cosine = mine.cosine;
    verdict.l1_relative = mine.l1_relative;
    verdict.rmse = mine.rmse;
    Thresholds limit = rule.thresholds;
    double own_rmse = 0;
    if (expected.scheme) {
      const Errors own = quantization_errors(*expected.scheme, expected.exact);
      limit.cosine = std::min(limit.cosine, 1 - 1.25 * (1 - own.cosine));
      limit.l1_relative = std::max(limit.l1_relative, 1.25 * own.l1_relative);
      limit.rmse = std::max(limit.rmse, 1.25 * own.rmse);
      own_rmse = own.rmse;
      verdict.scheme_distance = distance_of_scheme(got, expected, rule);
    }
    std::ostringstream text;
    text << "cosine " << mine.cosine << " (at least " << limit.cosine << "), relative L1 " << mine.l1_relative
         << " (at most " << limit.l1_relative << "), RMSE " << mine.rmse << " (at most " << limit.rmse << ")";
    verdict.ok = mine.cosine >= limit.cosine && mine.l1_relative <= limit.l1_relative && mine.rmse <= limit.rmse;
    if (!verdict.ok) {
      verdict.failure_class = class_of_mismatch(got, published, wrong, rule.reduction);
      verdict.message = text.str();
    } else if (mine.rmse < least_share_of_scheme * own_rmse) {
      verdict.ok = false;
      verdict.failure_class = "not_quantized";
      std::ostringstream why;
      why << "RMSE " << mine.rmse << " is below " << least_share_of_scheme << " times the " << own_rmse
          << " that the task's own quantization makes: this was not computed on quantized values";
      verdict.message = why.str();
    } else if (published.numel() >= enough_for_one_case && verdict.scheme_distance.value_or(0) > most_scheme_distance) {
      verdict.ok = false;
      verdict.failure_class = "not_quantized";
      verdict.message = not_the_scheme(*verdict.scheme_distance);
    }
    verdict.strict_ok = verdict.ok;
    if (!verdict.ok) verdict.worst = worst_elements(got, published, wrong);
    return verdict;
  }

  verdict.ok = count == 0;
  const std::string violation = rule.kind == ComparisonRule::Kind::exact ? (verdict.ok ? "" : "values differ")
                                                                         : strict_violation(got, expected, rule);
  verdict.strict_ok = violation.empty();
  if (verdict.ok && verdict.strict_ok) return verdict;
  verdict.worst = worst_elements(got, published, wrong);
  if (!verdict.strict_ok) {
    verdict.failure_class = count > 0 ? class_of_mismatch(got, published, wrong, rule.reduction) : "scale_or_cast";
    std::ostringstream text;
    text << count << " of " << published.numel() << " elements wrong, largest error " << *verdict.max_abs;
    if (count == 0) text << " (" << violation << ")";
    verdict.message = text.str();
  } else {
    std::ostringstream text;
    text << count << " of " << published.numel() << " elements outside the published tolerance of " << tolerance
         << ", largest error " << *verdict.max_abs << "; no less exact than PyTorch by the strict rule";
    verdict.message = text.str();
  }
  return verdict;
}

}  // namespace anneal::evaluator
