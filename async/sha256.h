// SHA-256 (FIPS 180-4), lower-case hex: the names of texts, requests and settings.
#pragma once

#include <string>
#include <string_view>

namespace anneal {

std::string sha256_hex(std::string_view bytes);

}  // namespace anneal
