#include "evaluator/daemon/lint.h"

#include <sys/random.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <sstream>
#include <tuple>

#include "evaluator/daemon/null_answers.h"
#include "evaluator/daemon/tensors.h"

namespace anneal::evaluator {

namespace {

constexpr int draws = 2;
// What may be right by chance is asked again with so many further draws.
constexpr int retries = 7;
constexpr std::int64_t few_elements = 64;
// fp64 against fp64, relative to each element and to the output's RMS: three digits of the sixteen are left to sums of
// a million terms and to formulas that cancel.
constexpr double oracle_tolerance = 1e-10;
// The largest outlier against the largest standard value of the same draw.
constexpr double least_outlier_ratio = 2;
// Perf inputs above it are not even drawn on the CPU, where nobody computes with them.
constexpr std::int64_t small_perf_elements = 1 << 22;

std::string fresh_draw() {
  std::uint64_t value = 0;
  if (::getrandom(&value, sizeof value, 0) != sizeof value) throw MachineFault("getrandom failed");
  std::ostringstream text;
  text << "lint-" << std::hex << value;
  return text.str();
}

double largest(const at::Tensor& values) {
  return values.numel() == 0 ? 0 : values.to(at::kDouble).abs().max().item<double>();
}

std::int64_t count(const at::Tensor& truths) { return truths.sum().item<std::int64_t>(); }

std::string figures(const CaseVerdict& verdict) {
  std::ostringstream text;
  text.precision(3);
  text << "largest difference " << verdict.max_abs.value_or(0) << ", relative " << verdict.max_rel.value_or(0);
  if (verdict.rmse) text << ", RMSE " << *verdict.rmse << ", cosine " << verdict.cosine.value_or(0);
  if (!verdict.message.empty()) text << "; " << verdict.message;
  return text.str();
}

class Lint {
 public:
  Lint(SuiteTask& task, const std::string& id, const std::string& device) : task_(task), device_(device) {
    report_.task = id;
    report_.device = device;
  }

  LintReport run() {
    guarded("task file", "", [&] {
      rules_ = task_.rules();
      for (int i = 0; i < draws; ++i) lint_draw(fresh_draw());
      for (const std::string& name : task_.perf_case_names()) {
        const InputSet set{name, "perf", fresh_draw()};
        guarded("perf case", where(set), [&] { lint_perf(set); });
      }
      note_not_applicable();
    });
    return std::move(report_);
  }

 private:
  using Key = std::pair<std::string, std::size_t>;  // null answer, output

  // What raises is a finding, and the rest is looked at all the same.
  template <class F>
  void guarded(const std::string& check, const std::string& where, F&& f) {
    try {
      f();
    } catch (const c10::Error& error) {
      find(check, where, error.what_without_backtrace());
    } catch (const std::exception& error) {
      find(check, where, error.what());
    }
  }

  // `subject` begins the message, and is said once of each place, `figures` from the first draw.
  void find(const std::string& check, const std::string& where, const std::string& subject,
            const std::string& figures = "") {
    if (!found_.insert({check, where, subject}).second) return;
    report_.findings.push_back({check, where, subject + figures});
  }

  static std::string where_output(const InputSet& set, std::size_t output, std::size_t outputs) {
    return where(set) + (outputs > 1 ? ", output " + std::to_string(output) : "");
  }

  ComparisonRule rule_of(const InputSet& set) {
    return {rules_.kind, rules_.thresholds, task_.cost(set).reduction, rules_.error_growth};
  }

  bool quantised() const { return rules_.kind == ComparisonRule::Kind::quantization; }

  void lint_draw(const std::string& draw) {
    refused_.clear();
    for (const std::string& name : task_.case_names()) {
      for (const char* kind : {"standard", "outlier"}) {
        const InputSet set{name, kind, draw};
        guarded("task file", where(set), [&] {
          if (set.kind == "standard" || task_.has_outliers(name)) lint_set(set);
        });
      }
    }
    // A kernel is accepted when every case takes it.
    for (const auto& [answer, output] : applicable_) {
      if (refused_.count({answer, output}) != 0) continue;
      find("null answer", "all cases", output_name(output) + answer + " would be accepted: no case refuses it");
    }
  }

  std::string output_name(std::size_t output) const {
    return outputs_ > 1 ? "output " + std::to_string(output) + ": " : "";
  }

  void lint_set(const InputSet& set) {
    ++report_.input_sets;
    const std::vector<Argument> arguments = task_.inputs(set, device_);
    check_draws(set, arguments);
    if (set.kind == "outlier") check_outliers(set, arguments);
    const std::vector<Expected> expected = task_.expect(set, device_);
    outputs_ = expected.size();
    if (outputs_ == 0) throw MachineFault("the reference returns nothing");
    check_domain(set, arguments, expected);
    check_reference(set, arguments, expected);
    check_oracle(set, expected);
    for (const NullAnswer& one : null_answers(task_, arguments, expected, /*rounded=*/true)) {
      ask(set, one, expected, /*ask_again=*/true);
    }
  }

  // Large sizes are where zeros or a forgotten tile hide best; rounding is looked for at the small ones.
  void lint_perf(const InputSet& set) {
    const Cost cost = task_.cost(set);
    for (const std::optional<double>& one : {cost.bytes, cost.flops, std::optional(cost.reduction)}) {
      if (one && !(*one > 0 && std::isfinite(*one))) {
        find("perf case", where(set), "cost returns " + std::to_string(*one) + ", which no call costs");
      }
    }
    if (device_ == "cpu" && task_.input_elements(set) > small_perf_elements) return;
    ++report_.input_sets;
    const std::vector<Argument> arguments = task_.inputs(set, device_);
    if (device_ == "cpu") {
      check_domain(set, arguments, {});
      return;
    }
    const std::vector<Expected> expected = task_.expect(set, device_);
    outputs_ = expected.size();
    check_domain(set, arguments, expected);
    for (const NullAnswer& one : null_answers(task_, arguments, expected, /*rounded=*/false)) {
      ask(set, one, expected, /*ask_again=*/false);
    }
  }

  void check_draws(const InputSet& set, const std::vector<Argument>& arguments) {
    const std::vector<Argument> again = task_.inputs(set, device_);
    std::set<std::string> constant;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (!arguments[i].tensor || arguments[i].tensor->numel() == 0) continue;
      if (!same_bytes(*arguments[i].tensor, *again[i].tensor)) {
        find("inputs", where(set), arguments[i].name + " differs between two drawings of the same draw");
      }
      constant.insert(arguments[i].name);
    }
    for (int i = 0; i < retries && !constant.empty(); ++i) {
      const std::vector<Argument> other = task_.inputs({set.case_name, set.kind, fresh_draw()}, device_);
      for (std::size_t j = 0; j < arguments.size(); ++j) {
        if (arguments[j].tensor && !same_bytes(*arguments[j].tensor, *other[j].tensor))
          constant.erase(arguments[j].name);
      }
    }
    for (const std::string& name : constant) {
      find("inputs", where(set), name + " is the same in " + std::to_string(retries + 1) + " draws");
    }
  }

  void check_outliers(const InputSet& set, const std::vector<Argument>& arguments) {
    const std::vector<std::string> named = task_.outlier_arguments(set.case_name);
    const std::vector<Argument> standard = task_.inputs({set.case_name, "standard", set.draw}, device_);
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (std::find(named.begin(), named.end(), arguments[i].name) == named.end()) continue;
      const double plain = largest(*standard[i].tensor), loud = largest(*arguments[i].tensor);
      if (loud >= least_outlier_ratio * plain) continue;
      std::ostringstream text;
      text.precision(3);
      text << "its largest magnitude is " << loud << ", that of standard inputs " << plain << " ("
           << least_outlier_ratio << " times that is asked for; bounded domains are make.uniform's)";
      find("inputs", where(set), arguments[i].name + " holds no outlier: ", text.str());
    }
  }

  // NaN is never an ordinary answer; outliers may overflow a short dtype, standard values may not.
  void check_domain(const InputSet& set, const std::vector<Argument>& arguments,
                    const std::vector<Expected>& expected) {
    const auto check = [&](const at::Tensor& values, const std::string& name) {
      if (!at::isFloatingType(values.scalar_type())) return;
      const std::int64_t nans = count(values.isnan()), infinities = count(values.isinf());
      if (nans == 0 && (infinities == 0 || set.kind == "outlier")) return;
      find("inputs", where(set), name + " is not finite: ",
           std::to_string(nans) + " NaN and " + std::to_string(infinities) + " infinities among " +
               std::to_string(values.numel()) + " elements: the inputs are outside of the operator's domain");
    };
    for (const Argument& one : arguments) {
      if (one.tensor) check(*one.tensor, one.name);
    }
    for (std::size_t i = 0; i < expected.size(); ++i) {
      check(expected[i].published, output_name(i) + "the reference's result");
      check(expected[i].exact, output_name(i) + "the reference's result in fp64");
    }
  }

  void check_reference(const InputSet& set, const std::vector<Argument>& arguments,
                       const std::vector<Expected>& expected) {
    const ComparisonRule rule = rule_of(set);
    const std::vector<Argument> given = task_.inputs(set, device_);
    const std::vector<at::Tensor> again = task_.reference(given);
    for (std::size_t i = 0; i < given.size(); ++i) {
      const bool may =
          std::find(rules_.in_place.begin(), rules_.in_place.end(), given[i].name) != rules_.in_place.end();
      if (given[i].tensor && !may && !same_bytes(*given[i].tensor, *arguments[i].tensor)) {
        find("reference", where(set), "it changes " + given[i].name + ", which in_place does not name");
      }
    }
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const std::string place = where_output(set, i, outputs_);
      const Expected& one = expected[i];
      const auto passes = [&](const at::Tensor& got, const Expected& wanted, bool published, const std::string& what) {
        const CaseVerdict verdict = compare_output(got, wanted, rule);
        if ((verdict.ok || !published) && verdict.strict_ok) return;
        find("reference", place, what, (verdict.strict_ok ? " (published rule): " : ": ") + figures(verdict));
      };
      if (quantised()) {
        if (!one.scheme) {
          find("reference", place, "the task file defines no scheme_fp64, which quantization needs");
          continue;
        }
        passes(one.scheme->to(one.published.scalar_type()), one, true, "its own scheme does not pass");
        continue;
      }
      passes(again.at(i), one, true, "run again it does not pass against itself");
      if (!at::isFloatingType(one.published.scalar_type())) continue;
      const at::Tensor best = one.exact.to(one.published.scalar_type());
      passes(best, one, false, "its fp64 result, rounded once, does not pass");
      // The strict rule allows three times PyTorch's own error: it must not be large already.
      passes(one.published, {best, one.exact, std::nullopt}, false,
             "its own error is above what the strict rule allows");
    }
  }

  void check_oracle(const InputSet& set, const std::vector<Expected>& expected) {
    const auto compare = [&](const char* name, const std::optional<std::vector<at::Tensor>>& oracle,
                             const auto& exact) {
      if (!oracle) {
        find("oracle", "", std::string("no ") + name + " in the task file");
        return;
      }
      if (oracle->size() != expected.size()) {
        find("oracle", where(set),
             std::string(name) + " returns " + std::to_string(oracle->size()) + " results, the reference " +
                 std::to_string(expected.size()) + " (its outputs, then what it changes in place)");
        return;
      }
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const std::string difference = disagreement((*oracle)[i], exact(expected[i]).to(at::kCPU));
        if (!difference.empty()) find("oracle", where_output(set, i, outputs_), std::string(name) + ": ", difference);
      }
    };
    guarded("oracle", where(set),
            [&] { compare("oracle", task_.oracle(set, device_), [](const Expected& one) { return one.exact; }); });
    if (!quantised() || !expected.front().scheme) return;
    guarded("oracle", where(set), [&] {
      compare("scheme_oracle", task_.scheme_oracle(set, device_), [](const Expected& one) { return *one.scheme; });
    });
  }

  // Empty when they agree.
  static std::string disagreement(const at::Tensor& oracle, const at::Tensor& exact) {
    std::ostringstream text;
    if (oracle.sizes() != exact.sizes()) {
      text << "shape " << oracle.sizes() << ", the reference's is " << exact.sizes();
      return text.str();
    }
    const at::Tensor a = oracle.to(at::kDouble).flatten(), b = exact.to(at::kDouble).flatten();
    const at::Tensor finite = at::where(b.isfinite(), b, at::zeros({}, b.options()));
    const double rms = b.numel() == 0 ? 0 : std::sqrt(finite.square().mean().item<double>());
    const double tolerance = at::isFloatingType(exact.scalar_type()) ? oracle_tolerance : 0;
    const at::Tensor wrong = at::isclose(a, b, tolerance, tolerance * rms, /*equal_nan=*/true).logical_not();
    const std::int64_t many = count(wrong);
    if (many == 0) return "";
    const std::int64_t first = wrong.to(at::kInt).argmax().item<std::int64_t>();
    text.precision(17);
    text << many << " of " << b.numel() << " elements disagree with the reference in fp64, the first of them "
         << a[first].item<double>() << " against " << b[first].item<double>();
    return text.str();
  }

  // `answer` must be refused by the rule that decides acceptance, unless it is what the reference gives.
  void ask(const InputSet& set, const NullAnswer& answer, const std::vector<Expected>& expected, bool ask_again) {
    const Key key{answer.name, answer.output};
    if (!answer.value) {
      reasons_.emplace(key, answer.reason);
      if (answer.misfit) refused_.insert(key);
      return;
    }
    applicable_.insert(key);
    const Expected& one = expected[answer.output];
    if (!quantised() && at::equal(*answer.value, one.published)) return;
    const CaseVerdict verdict = compare_output(*answer.value, one, rule_of(set));
    if (!verdict.strict_ok) {
      ++report_.refused;
      refused_.insert(key);
      return;
    }
    if (!answer.every_case) return;
    const bool by_chance = one.published.numel() < few_elements || set.kind == "outlier";
    if (ask_again && by_chance && refused_in_another_draw(set, key)) return;
    find("null answer", where_output(set, answer.output, outputs_), answer.name + " passes: ", figures(verdict));
  }

  bool refused_in_another_draw(const InputSet& set, const Key& key) {
    for (int i = 0; i < retries; ++i) {
      const InputSet other{set.case_name, set.kind, fresh_draw()};
      const std::vector<Argument> arguments = task_.inputs(other, device_);
      const std::vector<Expected> expected = task_.expect(other, device_);
      for (const NullAnswer& one : null_answers(task_, arguments, expected, /*rounded=*/true)) {
        if (one.name != key.first || one.output != key.second || !one.value) continue;
        if (!compare_output(*one.value, expected[one.output], rule_of(other)).strict_ok) return true;
      }
    }
    return false;
  }

  void note_not_applicable() {
    for (const auto& [key, reason] : reasons_) {
      if (applicable_.count(key) == 0) report_.not_applicable.push_back({output_name(key.second) + key.first, reason});
    }
  }

  SuiteTask& task_;
  const std::string device_;
  LintReport report_;
  std::set<std::tuple<std::string, std::string, std::string>> found_;
  TaskRules rules_;
  std::size_t outputs_ = 1;
  std::set<Key> applicable_, refused_;  // in any draw; in this one
  std::map<Key, std::string> reasons_;
};

}  // namespace

LintReport lint_task(SuiteTask& task, const std::string& id, const std::string& device) {
  return Lint(task, id, device).run();
}

}  // namespace anneal::evaluator
