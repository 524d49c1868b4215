// HTTP on libcurl's multi interface, driven by Asio's readiness waits and one timer: no thread, no blocking call.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <memory>

#include "llm/http.h"

namespace anneal::llm {

// HTTP/1.1, or HTTP/2 over TLS. Certificates and host names are verified; redirects are not followed; proxies are taken
// from the environment (https_proxy), never for loopback. Destroy it only after every post() has returned.
std::unique_ptr<HttpTransport> make_curl_transport(boost::asio::any_io_executor executor);

}  // namespace anneal::llm
