#include "llm/curl_transport.h"

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/system/system_error.hpp>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "async/child_process.h"
#include "async/deadline.h"
#include "llm/url.h"
#include "tests/async/run_on_loop.h"
#include "tests/llm/local_server.h"
#include "tests/temporary_folder.h"

namespace anneal::llm {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using test::chat_response;
using test::error_response;
using test::LocalServer;
using Fault = LocalServer::Fault;

HttpRequest request_to(const LocalServer& server) {
  HttpRequest request;
  request.url = server.base_url() + "/chat/completions";
  request.body = "{}";
  return request;
}

LocalServer::Response with_fault(Fault fault) {
  LocalServer::Response response = chat_response("text");
  response.fault = fault;
  return response;
}

int open_descriptors() {
  int count = 0;
  DIR* directory = ::opendir("/proc/self/fd");
  while (::readdir(directory) != nullptr) ++count;
  ::closedir(directory);
  return count;
}

Result<HttpResponse> post(HttpRequest request) {
  asio::io_context io;
  const auto transport = make_curl_transport(io.get_executor());
  return run_on(io, transport->post(std::move(request)));
}

TEST(CurlTransport, PostsBodyAndHeadersAndReturnsTheResponse) {
  LocalServer server(LocalServer::script({error_response(429, "slow down", {"Retry-After: 7"})}));
  HttpRequest request = request_to(server);
  request.headers = {"Authorization: Bearer secret", "Content-Type: application/json"};
  request.body = std::string(200'000, 'x');
  const auto response = post(request);
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(response->status, 429);
  EXPECT_EQ(response->retry_after, "7");
  EXPECT_NE(response->body.find("slow down"), std::string::npos);
  const auto seen = server.requests();
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].target, "/v1/chat/completions");
  EXPECT_EQ(seen[0].headers.at("authorization"), "Bearer secret");
  EXPECT_EQ(seen[0].body, request.body);
}

TEST(CurlTransport, ReusesTheConnection) {
  LocalServer server(LocalServer::script({chat_response("text")}));
  asio::io_context io;
  const auto transport = make_curl_transport(io.get_executor());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(run_on(io, transport->post(request_to(server))));
  EXPECT_EQ(server.connections(), 1);
}

TEST(CurlTransport, RunsManyRequestsAtOnce) {
  LocalServer::Response slow = chat_response("text");
  slow.delay = 500ms;
  LocalServer server(LocalServer::script({slow}));
  const int descriptors = open_descriptors();
  {
    asio::io_context io;
    const auto transport = make_curl_transport(io.get_executor());
    int ok = 0;
    for (int i = 0; i < 40; ++i) {
      asio::co_spawn(io, transport->post(request_to(server)), [&](std::exception_ptr, Result<HttpResponse> response) {
        ok += response && response->status == 200;
      });
    }
    const auto start = std::chrono::steady_clock::now();
    io.run();
    EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
    EXPECT_EQ(ok, 40);
    EXPECT_GE(server.peak(), 20);  // all 40, unless the machine is very busy
  }
  // The server closes its ends a moment after ours.
  for (int i = 0; i < 200 && open_descriptors() > descriptors; ++i) std::this_thread::sleep_for(10ms);
  EXPECT_LE(open_descriptors(), descriptors);
}

TEST(CurlTransport, CallsALostConnectionIo) {
  for (const Fault fault : {Fault::drop, Fault::half_body}) {
    LocalServer server(LocalServer::script({with_fault(fault)}));
    const auto response = post(request_to(server));
    ASSERT_FALSE(response);
    EXPECT_EQ(response.error().kind, ErrorKind::io) << response.error().message;
  }
}

TEST(CurlTransport, CallsARefusedConnectionUnreachable) {
  HttpRequest request;
  {
    LocalServer server(LocalServer::script({chat_response("text")}));
    request = request_to(server);
  }
  const auto response = post(request);
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().kind, ErrorKind::unreachable);
  EXPECT_TRUE(response.error().message.starts_with(request.url + ": ")) << response.error().message;
  EXPECT_TRUE(response.error().message.ends_with("are host and port of base_url right?")) << response.error().message;
}

TEST(CurlTransport, SaysThatAServerSpeaksNoTls) {
  asio::io_context server;
  asio::ip::tcp::acceptor acceptor(server, {asio::ip::address_v4::loopback(), 0});
  std::thread answers([&acceptor] {
    asio::ip::tcp::socket socket = acceptor.accept();
    asio::write(socket, asio::buffer(std::string("HTTP/1.1 400 Bad Request\r\n\r\n")));
    char text[1024];
    boost::system::error_code ended;
    while (!ended) socket.read_some(asio::buffer(text), ended);
  });
  HttpRequest request;
  request.url = "https://127.0.0.1:" + std::to_string(acceptor.local_endpoint().port()) + "/v1/chat/completions";
  request.timeout = 20s;
  const auto response = post(request);
  answers.join();
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().kind, ErrorKind::missing) << response.error().message;
  EXPECT_NE(response.error().message.find("no TLS is spoken there"), std::string::npos) << response.error().message;
}

TEST(CurlTransport, HandsOverWhereARedirectLeads) {
  LocalServer server(LocalServer::script({error_response(307, "moved", {"Location: /v2/chat"})}));
  const auto response = post(request_to(server));
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(response->status, 307);
  EXPECT_EQ(response->location, "/v2/chat");
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST(CurlTransport, TimesOut) {
  LocalServer server(LocalServer::script({with_fault(Fault::hang)}));
  HttpRequest request = request_to(server);
  request.timeout = 50ms;
  const auto response = post(request);
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().kind, ErrorKind::timeout);
}

TEST(CurlTransport, StopsAtOnceWhenCancelled) {
  LocalServer server(LocalServer::script({with_fault(Fault::hang)}));
  asio::io_context io;
  const auto transport = make_curl_transport(io.get_executor());
  const auto start = std::chrono::steady_clock::now();
  const auto response = run_on(io, with_deadline(transport->post(request_to(server)), 50ms));
  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().kind, ErrorKind::timeout);
  // The transport is still good.
  LocalServer other(LocalServer::script({chat_response("text")}));
  EXPECT_TRUE(run_on(io, transport->post(request_to(other))));
}

TEST(CurlTransport, RefusesAnEndlessResponse) {
  LocalServer::Response huge;
  huge.body.assign(max_response_bytes + 1, ' ');
  LocalServer server(LocalServer::script({huge}));
  const auto response = post(request_to(server));
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().kind, ErrorKind::internal);
  EXPECT_NE(response.error().message.find("64 MiB"), std::string::npos);
}

TEST(CurlTransport, NeverSpeaksAnythingButHttp) {
  HttpRequest request;
  request.url = "file:///etc/passwd";
  const auto response = post(request);
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().kind, ErrorKind::missing);
}

// Needs the openssl program, which has a TLS server in it.
TEST(CurlTransport, RefusesAServerWhoseCertificateItCannotVerify) {
  const test::TemporaryFolder folder;
  const std::string key = folder.path() / "key.pem", certificate = folder.path() / "certificate.pem";
  const std::string make = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 -addext " +
                           std::string("subjectAltName=IP:127.0.0.1 -keyout ") + key + " -out " + certificate +
                           " >/dev/null 2>&1";
  if (std::system(make.c_str()) != 0) GTEST_SKIP() << "no openssl program here";

  asio::io_context io;
  int output[2];
  ASSERT_EQ(::pipe2(output, O_CLOEXEC), 0);
  ChildOptions options;
  options.argv = {"openssl", "s_server", "-accept", "127.0.0.1:0", "-www",     "-naccept",
                  "1",       "-key",     key,       "-cert",       certificate};
  options.environment = {"PATH=/usr/local/bin:/usr/bin:/bin"};
  options.descriptors = {{output[1], 1}};
  auto server = ChildProcess::start(io.get_executor(), options);
  ASSERT_TRUE(server) << server.error().message;
  ::close(output[1]);
  std::string said;
  char text[256];
  for (ssize_t n = 1; n > 0 && said.find("ACCEPT 127.0.0.1:") == std::string::npos;) {
    n = ::read(output[0], text, sizeof text);
    if (n > 0) said.append(text, static_cast<std::size_t>(n));
  }
  ::close(output[0]);
  const auto at = said.find("127.0.0.1:");
  ASSERT_NE(at, std::string::npos) << said;

  HttpRequest request;
  request.url = "https://127.0.0.1:" + std::to_string(std::stoi(said.substr(at + 10))) + "/v1/chat/completions";
  request.timeout = 20s;
  const auto response = post(request);
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().kind, ErrorKind::missing) << response.error().message;
  EXPECT_NE(response.error().message.find("certificate"), std::string::npos) << response.error().message;
  EXPECT_NE(response.error().message.find("update-ca-certificates"), std::string::npos) << response.error().message;
}

TEST(Url, KnowsLoopback) {
  for (const char* url :
       {"http://127.0.0.1:8000/v1", "http://localhost/v1", "http://[::1]:8000/v1", "http://127.9.9.9"}) {
    EXPECT_TRUE(is_loopback(url)) << url;
  }
  for (const char* url : {"http://127.0.0.1.example.com/v1", "http://10.0.0.1/v1", "https://api.deepseek.com/v1",
                          "http://localhost@example.com/"}) {
    EXPECT_FALSE(is_loopback(url)) << url;
  }
}

TEST(Url, RefusesWhatIsNoBaseUrl) {
  for (const char* url : {"", "api.deepseek.com", "ftp://x/v1", "https://user:secret@x/v1", "https://x/v1?key=1"}) {
    const auto parsed = parse_url(url);
    EXPECT_FALSE(parsed) << url;
    if (!parsed) {
      EXPECT_EQ(parsed.error().message.find("secret"), std::string::npos);
    }
  }
  const auto parsed = parse_url("https://api.deepseek.com/v1");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->host, "api.deepseek.com");
}

}  // namespace
}  // namespace anneal::llm
