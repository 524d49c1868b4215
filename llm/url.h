// What must be known of a base URL before a key is sent to it.
#pragma once

#include <string>

#include "async/result.h"

namespace anneal::llm {

struct Url {
  std::string scheme;  // "http" | "https"
  std::string host;
};

// ErrorKind::bad_input for anything but an http(s) URL with a host and without user, query or fragment.
Result<Url> parse_url(const std::string& url);

// True when the host of `url` is localhost, 127.0.0.0/8 or ::1.
bool is_loopback(const std::string& url);

}  // namespace anneal::llm
