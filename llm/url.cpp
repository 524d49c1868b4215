#include "llm/url.h"

#include <arpa/inet.h>
#include <curl/curl.h>

#include <algorithm>
#include <memory>

namespace anneal::llm {

namespace {

struct UrlCleanup {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};

std::string part(CURLU* url, CURLUPart which) {
  char* text = nullptr;
  if (curl_url_get(url, which, &text, 0) != CURLUE_OK) return {};
  std::string result = text;
  curl_free(text);
  return result;
}

}  // namespace

std::string without_secrets(const std::string& text) {
  std::string shown = text.substr(0, std::min<std::size_t>(text.find_first_of("?#"), 120));
  if (const std::size_t user = shown.rfind('@'); user != std::string::npos) shown = "..." + shown.substr(user);
  return shown;
}

Result<Url> parse_url(const std::string& text) {
  const std::unique_ptr<CURLU, UrlCleanup> url(curl_url());
  Url result;
  if (url && curl_url_set(url.get(), CURLUPART_URL, text.c_str(), 0) == CURLUE_OK) {
    result.scheme = part(url.get(), CURLUPART_SCHEME);
    result.host = part(url.get(), CURLUPART_HOST);
  }
  if ((result.scheme != "http" && result.scheme != "https") || result.host.empty()) {
    return fail(ErrorKind::bad_input, "\"" + without_secrets(text) + "\" is not an http:// or https:// URL.");
  }
  if (!part(url.get(), CURLUPART_USER).empty() || !part(url.get(), CURLUPART_PASSWORD).empty()) {
    return fail(ErrorKind::bad_input,
                "A URL must not hold a user name or password: name a variable in key_env instead.");
  }
  if (!part(url.get(), CURLUPART_QUERY).empty() || !part(url.get(), CURLUPART_FRAGMENT).empty()) {
    return fail(ErrorKind::bad_input, "\"" + without_secrets(text) + "\" must be a base URL without ? and #.");
  }
  return result;
}

bool is_loopback(const std::string& text) {
  const Result<Url> url = parse_url(text);
  if (!url) return false;
  if (url->host == "localhost" || url->host == "[::1]") return true;
  in_addr address{};
  return ::inet_pton(AF_INET, url->host.c_str(), &address) == 1 && (ntohl(address.s_addr) >> 24) == 127;
}

}  // namespace anneal::llm
