#include "llm/curl_transport.h"

#include <curl/curl.h>
#include <fcntl.h>

#include <array>
#include <boost/asio/error.hpp>
#include <boost/asio/experimental/channel.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>

#include "llm/url.h"

namespace anneal::llm {

namespace asio = boost::asio;

namespace {

struct CurlGlobal {
  CurlGlobal() {
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) throw std::runtime_error("libcurl cannot be initialised");
  }
};

// One exchange. Its address is what libcurl holds, so it stays where it is.
struct Transfer {
  explicit Transfer(asio::any_io_executor executor) : easy(curl_easy_init()), done(std::move(executor), 1) {
    if (easy == nullptr) throw std::bad_alloc();
  }
  ~Transfer() {
    curl_easy_cleanup(easy);
    curl_slist_free_all(headers);
  }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  CURL* easy;
  curl_slist* headers = nullptr;
  HttpRequest request;
  std::string body;
  bool too_long = false;
  bool in_multi = false;
  std::array<char, CURL_ERROR_SIZE> message{};
  // Capacity 1: the one completion is kept even if it comes before the coroutine waits.
  asio::experimental::channel<void(boost::system::error_code, CURLcode)> done;
};

// One of curl's sockets. Waits happen on a duplicate: curl closes its own descriptor when it likes, and a number that
// was closed and given out again must not be waited on.
struct Watch {
  Watch(asio::any_io_executor executor, int duplicate) : descriptor(std::move(executor), duplicate) {}
  asio::posix::stream_descriptor descriptor;
  int wanted = 0;  // CURL_POLL_IN | CURL_POLL_OUT; 0 once curl has let go of it
  bool reading = false;
  bool writing = false;
};

std::size_t on_body(char* data, std::size_t size, std::size_t count, void* user) {
  auto* transfer = static_cast<Transfer*>(user);
  const std::size_t bytes = size * count;
  if (transfer->body.size() + bytes > max_response_bytes) {
    transfer->too_long = true;
    return 0;  // ends the transfer with CURLE_WRITE_ERROR
  }
  transfer->body.append(data, bytes);
  return bytes;
}

// libcurl is entered only through run() and add()/remove(), never from one of its own callbacks.
class Multi : public std::enable_shared_from_this<Multi> {
 public:
  explicit Multi(asio::any_io_executor executor)
      : executor_(std::move(executor)), multi_(curl_multi_init()), timer_(executor_) {
    if (multi_ == nullptr) throw std::bad_alloc();
    curl_multi_setopt(multi_, CURLMOPT_SOCKETFUNCTION, &Multi::on_socket);
    curl_multi_setopt(multi_, CURLMOPT_SOCKETDATA, this);
    curl_multi_setopt(multi_, CURLMOPT_TIMERFUNCTION, &Multi::on_timer);
    curl_multi_setopt(multi_, CURLMOPT_TIMERDATA, this);
    curl_multi_setopt(multi_, CURLMOPT_PIPELINING, CURLPIPE_MULTIPLEX);
  }

  ~Multi() {
    // Closing idle connections would call back into a half-destroyed object.
    curl_multi_setopt(multi_, CURLMOPT_SOCKETFUNCTION, nullptr);
    curl_multi_setopt(multi_, CURLMOPT_TIMERFUNCTION, nullptr);
    curl_multi_cleanup(multi_);
  }

  asio::any_io_executor executor() const { return executor_; }

  void add(Transfer* transfer) {
    curl_easy_setopt(transfer->easy, CURLOPT_PRIVATE, transfer);
    const CURLMcode code = curl_multi_add_handle(multi_, transfer->easy);
    if (code != CURLM_OK) {
      transfer->done.try_send(boost::system::error_code(), CURLE_FAILED_INIT);
      return;
    }
    transfer->in_multi = true;
    transfers_.insert(transfer);
  }

  void remove(Transfer* transfer) {
    if (!std::exchange(transfer->in_multi, false)) return;
    transfers_.erase(transfer);
    curl_multi_remove_handle(multi_, transfer->easy);
  }

 private:
  static int on_socket(CURL*, curl_socket_t socket, int what, void* user, void*) {
    auto* self = static_cast<Multi*>(user);
    if (what == CURL_POLL_REMOVE) {
      if (const auto found = self->watches_.find(socket); found != self->watches_.end()) {
        found->second->wanted = 0;
        boost::system::error_code ignored;
        found->second->descriptor.close(ignored);
        self->watches_.erase(found);
      }
      return 0;
    }
    auto& watch = self->watches_[socket];
    if (!watch) {
      const int duplicate = ::fcntl(socket, F_DUPFD_CLOEXEC, 0);
      if (duplicate < 0) {
        self->watches_.erase(socket);
        return -1;  // curl reports CURLM_ABORTED_BY_CALLBACK, and every transfer is failed
      }
      watch = std::make_shared<Watch>(self->executor_, duplicate);
    }
    watch->wanted = what;
    self->arm(socket, watch);
    return 0;
  }

  static int on_timer(CURLM*, long milliseconds, void* user) {
    auto* self = static_cast<Multi*>(user);
    const std::uint64_t generation = ++self->generation_;  // outdates a wait that has ended but not been run
    if (milliseconds < 0) {
      self->timer_.cancel();
      return 0;
    }
    self->timer_.expires_after(std::chrono::milliseconds(milliseconds));
    self->timer_.async_wait([weak = self->weak_from_this(), generation](boost::system::error_code error) {
      const auto alive = weak.lock();
      if (error || !alive || alive->generation_ != generation) return;
      alive->run(CURL_SOCKET_TIMEOUT, 0);
    });
    return 0;
  }

  // Waits for what curl wants of `watch` and is not yet waited for. Each readiness is reported once and waited for
  // anew, which makes epoll's edges levels.
  void arm(curl_socket_t socket, const std::shared_ptr<Watch>& watch) {
    if ((watch->wanted & CURL_POLL_IN) != 0 && !watch->reading) {
      watch->reading = true;
      wait(socket, watch, asio::posix::stream_descriptor::wait_read, &Watch::reading, CURL_CSELECT_IN);
    }
    if ((watch->wanted & CURL_POLL_OUT) != 0 && !watch->writing) {
      watch->writing = true;
      wait(socket, watch, asio::posix::stream_descriptor::wait_write, &Watch::writing, CURL_CSELECT_OUT);
    }
  }

  void wait(curl_socket_t socket, const std::shared_ptr<Watch>& watch, asio::posix::stream_descriptor::wait_type type,
            bool Watch::* waiting, int event) {
    watch->descriptor.async_wait(
        type, [weak = weak_from_this(), socket, watch, waiting, event](boost::system::error_code error) {
          (*watch).*waiting = false;
          const auto alive = weak.lock();
          const int poll = event == CURL_CSELECT_IN ? CURL_POLL_IN : CURL_POLL_OUT;
          if (!alive || error == asio::error::operation_aborted || (watch->wanted & poll) == 0) return;
          alive->run(socket, error ? event | CURL_CSELECT_ERR : event);
          if (watch->wanted != 0) alive->arm(socket, watch);
        });
  }

  void run(curl_socket_t socket, int events) {
    int running = 0;
    const CURLMcode code = curl_multi_socket_action(multi_, socket, events, &running);
    drain();
    if (code == CURLM_OK) return;
    const std::set<Transfer*> failed = transfers_;
    for (Transfer* transfer : failed) {
      remove(transfer);
      transfer->done.try_send(boost::system::error_code(), CURLE_OUT_OF_MEMORY);
    }
  }

  void drain() {
    int left = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi_, &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      const CURLcode code = message->data.result;  // the message dies with remove()
      Transfer* transfer = nullptr;
      curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer);
      remove(transfer);
      transfer->done.try_send(boost::system::error_code(), code);
    }
  }

  asio::any_io_executor executor_;
  CURLM* multi_;
  asio::steady_timer timer_;
  std::uint64_t generation_ = 0;
  std::map<curl_socket_t, std::shared_ptr<Watch>> watches_;
  std::set<Transfer*> transfers_;
};

// Takes the transfer out of libcurl when its coroutine unwinds.
struct InMulti {
  Multi* multi;
  Transfer* transfer;
  ~InMulti() { multi->remove(transfer); }
};

void prepare(Transfer* transfer) {
  CURL* easy = transfer->easy;
  const HttpRequest& request = transfer->request;
  for (const std::string& header : request.headers) {
    transfer->headers = curl_slist_append(transfer->headers, header.c_str());
  }
  // No "Expect: 100-continue": it costs a round trip and some servers never answer it.
  transfer->headers = curl_slist_append(transfer->headers, "Expect:");
  curl_easy_setopt(easy, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, transfer->headers);
  curl_easy_setopt(easy, CURLOPT_POST, 1L);
  curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
  curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request.body.c_str());
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &on_body);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer);
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer->message.data());
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_2TLS));
  // Over TLS one connection may carry all; in clear text waiting for that would make one request queue behind another.
  if (request.url.compare(0, 6, "https:") == 0) curl_easy_setopt(easy, CURLOPT_PIPEWAIT, 1L);
  curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
  curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
  curl_easy_setopt(easy, CURLOPT_ACCEPT_ENCODING, "");
  curl_easy_setopt(easy, CURLOPT_USERAGENT, "anneal");
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, 30'000L);
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(request.timeout.count()));
  curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);  // a model may think for minutes without a byte
  curl_easy_setopt(easy, CURLOPT_MAXAGE_CONN, 60L);
  if (is_loopback(request.url)) curl_easy_setopt(easy, CURLOPT_PROXY, "");
}

// Whether the other side answered a TLS handshake with something else, in the words of OpenSSL and GnuTLS.
bool speaks_no_tls(const std::string& detail) {
  return detail.find("wrong version number") != std::string::npos ||
         detail.find("unexpected TLS packet") != std::string::npos;
}

Error error_of(const Transfer& transfer, CURLcode code) {
  const std::string detail = transfer.message[0] != '\0' ? transfer.message.data() : curl_easy_strerror(code);
  const std::string& url = transfer.request.url;
  if (transfer.too_long) return {ErrorKind::internal, url + " sent more than 64 MiB."};
  const auto error = [&](ErrorKind kind, const std::string& advice) {
    return Error{kind, url + ": " + detail + (advice.empty() ? "." : "; " + advice)};
  };
  const char* const unreachable = "is the server running, and are host and port of base_url right?";
  switch (code) {
    case CURLE_COULDNT_CONNECT:
      return error(ErrorKind::unreachable, unreachable);
    case CURLE_COULDNT_RESOLVE_HOST:
      return error(ErrorKind::unreachable, "is the host of base_url right, and is there a network?");
    case CURLE_COULDNT_RESOLVE_PROXY:
      return error(ErrorKind::unreachable, "are the variables http_proxy and https_proxy right?");
    case CURLE_OPERATION_TIMEDOUT: {
      curl_off_t connected = 0;  // microseconds until the connection stood; 0: it never did
      curl_easy_getinfo(transfer.easy, CURLINFO_CONNECT_TIME_T, &connected);
      if (connected == 0) return error(ErrorKind::unreachable, unreachable);
      return error(ErrorKind::timeout, "");
    }
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_ISSUER_ERROR:
      return error(ErrorKind::missing,
                   "base_url must name the host as its certificate does, and the system must trust who signed that "
                   "(update-ca-certificates).");
    case CURLE_SSL_CONNECT_ERROR:
      if (!speaks_no_tls(detail)) return error(ErrorKind::io, "");
      return error(ErrorKind::missing, "no TLS is spoken there: is the port of base_url right, or is it http://?");
    case CURLE_UNSUPPORTED_PROTOCOL:  // also what a TLS server answers to plain HTTP
      return error(ErrorKind::missing, "no HTTP is spoken there: is the port of base_url right, or is it https://?");
    case CURLE_URL_MALFORMAT:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
      return error(ErrorKind::missing, "");
    default:
      return error(ErrorKind::io, "");
  }
}

class CurlTransport final : public HttpTransport {
 public:
  explicit CurlTransport(asio::any_io_executor executor) {
    static const CurlGlobal global;
    multi_ = std::make_shared<Multi>(std::move(executor));
  }

  asio::awaitable<Result<HttpResponse>> post(HttpRequest request) override {
    const std::shared_ptr<Multi> multi = multi_;
    Transfer transfer(multi->executor());
    transfer.request = std::move(request);
    prepare(&transfer);
    const InMulti guard{multi.get(), &transfer};
    multi->add(&transfer);
    boost::system::error_code cancelled;
    const CURLcode code = co_await transfer.done.async_receive(asio::redirect_error(asio::use_awaitable, cancelled));
    if (cancelled) throw boost::system::system_error(asio::error::operation_aborted);
    if (code != CURLE_OK) {
      Error error = error_of(transfer, code);
      co_return tl::unexpected<Error>(std::move(error));
    }
    HttpResponse response;
    long status = 0;
    curl_easy_getinfo(transfer.easy, CURLINFO_RESPONSE_CODE, &status);
    response.status = static_cast<int>(status);
    curl_header* header = nullptr;
    if (curl_easy_header(transfer.easy, "Retry-After", 0, CURLH_HEADER, -1, &header) == CURLHE_OK) {
      response.retry_after = header->value;
    }
    if (curl_easy_header(transfer.easy, "Location", 0, CURLH_HEADER, -1, &header) == CURLHE_OK) {
      response.location = header->value;
    }
    response.body = std::move(transfer.body);
    co_return response;
  }

 private:
  std::shared_ptr<Multi> multi_;
};

}  // namespace

std::unique_ptr<HttpTransport> make_curl_transport(asio::any_io_executor executor) {
  return std::make_unique<CurlTransport>(std::move(executor));
}

}  // namespace anneal::llm
