// Deterministic ids: UUIDv5, so that shards, merges and resumed runs agree without talking.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

namespace anneal::transitions {

// UUIDv5 (RFC 4122 §4.3) of the parts joined with U+001F, in anneal's own namespace; lower-case, 36 characters.
std::string make_id(std::initializer_list<std::string_view> parts);

}  // namespace anneal::transitions
