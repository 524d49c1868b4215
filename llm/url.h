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

// `text`, a URL or not, as an error may show it: without query, fragment and user's part, which can hold a key, and at
// most 120 bytes.
std::string without_secrets(const std::string& text);

// True when the host of `url` is localhost, 127.0.0.0/8 or ::1.
bool is_loopback(const std::string& url);

}  // namespace anneal::llm
