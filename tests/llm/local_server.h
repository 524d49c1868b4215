// A small HTTP/1.1 server on 127.0.0.1 for tests and llm_sim: it runs on a thread of its own and answers as a function
// says, faults included. Header-only; needs anneal_async.
#pragma once

#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <cctype>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "async/nursery.h"

namespace anneal::test {

class LocalServer {
 public:
  struct Request {
    std::string target;                          // "/v1/chat/completions"
    std::map<std::string, std::string> headers;  // names in lower case
    std::string body;
  };

  enum class Fault {
    none,
    drop,       // the connection closes without an answer
    half_body,  // headers and half of the body, then the connection closes
    hang,       // nothing is ever sent
  };

  struct Response {
    int status = 200;
    std::string body;
    std::vector<std::string> headers;  // "Retry-After: 1"; Content-Length is added
    std::chrono::milliseconds delay{0};
    Fault fault = Fault::none;
    std::optional<std::size_t> claimed_length;  // Content-Length, when it is a lie
  };

  // Runs on the server's thread.
  using Handler = std::function<Response(const Request&)>;

  // Port 0: a free one. Throws boost::system::system_error when the port is taken.
  explicit LocalServer(Handler handler, std::uint16_t port = 0)
      : handler_(std::move(handler)),
        acceptor_(io_, {boost::asio::ip::make_address_v4("127.0.0.1"), port}),
        port_(acceptor_.local_endpoint().port()) {
    boost::asio::co_spawn(io_, serve(), [](std::exception_ptr error) {
      if (error) std::rethrow_exception(error);
    });
    thread_ = std::thread([this] { io_.run(); });
  }

  // The n-th request gets the n-th response; the last one is repeated.
  static Handler script(std::vector<Response> responses) {
    return [responses = std::move(responses), next = std::size_t{0}](const Request&) mutable {
      return responses[std::min(next++, responses.size() - 1)];
    };
  }

  ~LocalServer() {
    boost::asio::post(io_, [this] { acceptor_.close(); });
    thread_.join();
  }
  LocalServer(const LocalServer&) = delete;
  LocalServer& operator=(const LocalServer&) = delete;

  std::uint16_t port() const { return port_; }
  std::string base_url() const { return "http://127.0.0.1:" + std::to_string(port_) + "/v1"; }

  // Received so far, those that got a fault included.
  std::vector<Request> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  int connections() const {
    const std::lock_guard lock(mutex_);
    return connections_;
  }
  // Most requests that were being answered at one time.
  int peak() const {
    const std::lock_guard lock(mutex_);
    return peak_;
  }

 private:
  using Socket = boost::asio::ip::tcp::socket;

  boost::asio::awaitable<void> serve() {
    Nursery sessions(io_.get_executor());
    for (;;) {
      boost::system::error_code error;
      Socket socket = co_await acceptor_.async_accept(boost::asio::redirect_error(boost::asio::use_awaitable, error));
      if (error) break;
      {
        const std::lock_guard lock(mutex_);
        ++connections_;
      }
      sessions.spawn(session(std::move(socket)));
    }
    sessions.cancel();
    co_await sessions.join();
  }

  boost::asio::awaitable<void> session(Socket socket) {
    std::string buffer;
    for (;;) {
      boost::system::error_code error;
      const std::size_t head_size =
          co_await boost::asio::async_read_until(socket, boost::asio::dynamic_buffer(buffer), "\r\n\r\n",
                                                 boost::asio::redirect_error(boost::asio::use_awaitable, error));
      if (error) co_return;
      Request request = parse_head(buffer.substr(0, head_size));
      buffer.erase(0, head_size);
      const std::size_t body_size = content_length(request);
      if (buffer.size() < body_size) {
        co_await boost::asio::async_read(socket, boost::asio::dynamic_buffer(buffer),
                                         boost::asio::transfer_at_least(body_size - buffer.size()),
                                         boost::asio::redirect_error(boost::asio::use_awaitable, error));
        if (error) co_return;
      }
      request.body = buffer.substr(0, body_size);
      buffer.erase(0, body_size);
      const Busy busy(this, request);
      Response response = handler_(request);
      if (response.delay.count() > 0 || response.fault == Fault::hang) {
        boost::asio::steady_timer timer(io_, response.delay);
        if (response.fault == Fault::hang) timer.expires_at(boost::asio::steady_timer::time_point::max());
        co_await timer.async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, error));
        if (error) co_return;
      }
      if (response.fault == Fault::drop) co_return;
      std::string bytes = head_of(response);
      bytes += response.fault == Fault::half_body ? response.body.substr(0, response.body.size() / 2) : response.body;
      co_await boost::asio::async_write(socket, boost::asio::buffer(bytes),
                                        boost::asio::redirect_error(boost::asio::use_awaitable, error));
      if (error || response.fault == Fault::half_body) co_return;
    }
  }

  struct Busy {
    Busy(LocalServer* s, const Request& request) : server(s) {
      const std::lock_guard lock(server->mutex_);
      server->requests_.push_back(request);
      server->peak_ = std::max(server->peak_, ++server->busy_);
    }
    ~Busy() {
      const std::lock_guard lock(server->mutex_);
      --server->busy_;
    }
    Busy(const Busy&) = delete;
    Busy& operator=(const Busy&) = delete;
    LocalServer* server;
  };

  static Request parse_head(const std::string& head) {
    Request request;
    std::size_t line_end = head.find("\r\n");
    const std::string first = head.substr(0, line_end);
    const auto space = first.find(' ');
    if (space != std::string::npos) request.target = first.substr(space + 1, first.rfind(' ') - space - 1);
    while (line_end + 2 < head.size()) {
      const std::size_t begin = line_end + 2;
      line_end = head.find("\r\n", begin);
      if (line_end == std::string::npos || line_end == begin) break;
      const std::string line = head.substr(begin, line_end - begin);
      const auto colon = line.find(':');
      if (colon == std::string::npos) continue;
      std::string name = line.substr(0, colon);
      std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
      const auto value = line.find_first_not_of(' ', colon + 1);
      if (value == std::string::npos) {
        request.headers[name] = "";
      } else {
        request.headers[name] = line.substr(value);
      }
    }
    return request;
  }

  static std::size_t content_length(const Request& request) {
    const auto found = request.headers.find("content-length");
    return found == request.headers.end() ? 0 : std::stoul(found->second);
  }

  static std::string head_of(const Response& response) {
    std::string head = "HTTP/1.1 " + std::to_string(response.status) + " Scripted\r\n";
    for (const std::string& header : response.headers) head += header + "\r\n";
    head += "Content-Type: application/json\r\nContent-Length: " +
            std::to_string(response.claimed_length.value_or(response.body.size())) + "\r\n\r\n";
    return head;
  }

  Handler handler_;
  boost::asio::io_context io_{1};
  boost::asio::ip::tcp::acceptor acceptor_;
  std::uint16_t port_;
  std::thread thread_;
  mutable std::mutex mutex_;
  std::vector<Request> requests_;
  int connections_ = 0;
  int busy_ = 0;
  int peak_ = 0;
};

// A chat completion in OpenAI's form.
inline LocalServer::Response chat_response(const std::string& text, const std::string& finish_reason = "stop",
                                           int prompt_tokens = 100, int completion_tokens = 50) {
  nlohmann::json message = {{"role", "assistant"}, {"content", text}};
  nlohmann::json choice = {{"index", 0}, {"message", message}, {"finish_reason", finish_reason}};
  nlohmann::json body = {{"id", "chatcmpl-1"},
                         {"object", "chat.completion"},
                         {"model", "scripted-1"},
                         {"choices", nlohmann::json::array({choice})},
                         {"usage", {{"prompt_tokens", prompt_tokens}, {"completion_tokens", completion_tokens}}}};
  LocalServer::Response response;
  response.body = body.dump();
  return response;
}

// An error in OpenAI's form.
inline LocalServer::Response error_response(int status, const std::string& message,
                                            std::vector<std::string> headers = {}) {
  LocalServer::Response response;
  response.status = status;
  nlohmann::json body = {{"error", {{"message", message}, {"type", "scripted"}}}};
  response.body = body.dump();
  response.headers = std::move(headers);
  return response;
}

}  // namespace anneal::test
