// Each line marked `flagged: RULE` must be found by tools/coroutine_rules, and no other line. Never built.
#include <coroutine>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>

namespace {

template <class T>
struct Task {
  struct promise_type {
    Task get_return_object() { return {}; }
    std::suspend_never initial_suspend() { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_value(T) {}
    void unhandled_exception() {}
  };
  bool await_ready() { return true; }
  void await_suspend(std::coroutine_handle<>) {}
  T await_resume() { return T(); }
};

struct Aggregate {
  std::string name;
  int number = 0;
};
struct WithConstructor {
  explicit WithConstructor(std::string text = "") : name(std::move(text)) {}
  Task<int> run() const;
  std::string name;
};
struct Pair {
  std::string first, second;
};
Task<Aggregate> take(Aggregate value);
Task<Aggregate> take_class(WithConstructor value);
Task<Aggregate> take_list(std::initializer_list<int> values);
Task<std::string> text(std::string value);
Task<Pair> pair();
template <class F>
Task<int> call(F function);
int plain(Aggregate value, int number);
Task<int> number();
Aggregate make();

Task<int> bad(bool flag) {
  std::string name = "name";
  Aggregate a = co_await take(Aggregate{name, 1});              // flagged: temporary
  a = co_await take({.name = name});                            // flagged: temporary
  a = co_await take(Aggregate(name, 1));                        // flagged: temporary
  a = co_await take_class(WithConstructor(name));               // flagged: temporary
  a = co_await take_list({1, 2, 3});                            // flagged: temporary
  int n = co_await WithConstructor{name}.run();                 // flagged: temporary
  n += plain(Aggregate{name, 2}, co_await number());            // flagged: temporary
  Aggregate b{co_await text(name), 3};                          // flagged: temporary
  b.name = co_await text(flag ? name : std::string());          // flagged: conditional temporary
  b.name = flag ? co_await text(name) : co_await text(a.name);  // flagged: conditional
  n += co_await call([name] { return name.size(); });           // flagged: lambda
  n += co_await call([&] { return name.size(); });              // flagged: lambda
  const auto [first, second] = co_await pair();                 // flagged: binding
  co_return Aggregate{co_await text(first), n}.number;          // flagged: temporary
}

Task<int> good(bool flag) {
  std::string name = "name";
  Aggregate named{name, 1};
  Aggregate a = co_await take(named);
  a = co_await take(std::move(named));
  a = co_await take(make());
  auto later = take(Aggregate{name, 1});
  a = co_await std::move(later);
  int n = co_await call([] { return 1; });
  n += co_await call(flag ? 1 : 2);
  a.name = co_await text("literal");
  a.name = co_await text(name + "x");
  const auto captured = [name] { return name.size(); };
  n += co_await call(captured);
  auto both = co_await pair();
  auto& [first, second] = both;
  if (flag) a.name = co_await text(first);
  const std::optional<int> maybe = co_await number();
  const auto plain_lambda = [&](bool other) {
    Aggregate inner{other ? first : second, 2};
    return plain(Aggregate{inner.name, 1}, 2);
  };
  const auto coroutine = [](Aggregate value) -> Task<int> {
    Aggregate inner{value.name, 1};
    inner = co_await take(inner);
    co_return inner.number;
  };
  n += co_await coroutine(a);
  co_return n + plain_lambda(flag) + *maybe;
}

}  // namespace
