// How a request reaches a server. The real transport is curl_transport.h; tests script one.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "async/result.h"

namespace anneal::llm {

// A longer response is an error: no chat completion comes near it.
inline constexpr std::size_t max_response_bytes = 64u << 20;

struct HttpRequest {
  std::string url;
  std::vector<std::string> headers;  // "Name: value"
  std::string body;
  std::chrono::milliseconds timeout{600'000};  // of the whole exchange
};

struct HttpResponse {
  int status = 0;
  std::string body;
  std::string retry_after;  // the header's value, empty when absent
  std::string location;     // likewise
};

class HttpTransport {
 public:
  virtual ~HttpTransport() = default;
  // POST. Any status is a response. Errors: io (lost, cut off: worth another try), timeout, unreachable (likewise),
  // internal (response over max_response_bytes), missing (can never work as configured: bad URL, TLS not verified, no
  // TLS or no HTTP at that port). Their messages name the URL and say what to look at. Cancellation closes the exchange
  // at once and throws operation_aborted.
  virtual boost::asio::awaitable<Result<HttpResponse>> post(HttpRequest request) = 0;
};

}  // namespace anneal::llm
