// Frames between anneal and anneal-evald, on a stream socket: a 4-byte little-endian length, then that many bytes of
// JSON (UTF-8). Message types: docs/protocol.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace anneal::evaluator {

inline constexpr int protocol_version = 2;
inline constexpr std::size_t frame_header_bytes = 4;
// A verdict of 64 cases with feedback is below 200 kB; a longer frame is a broken or hostile peer.
inline constexpr std::size_t max_frame_bytes = 16u << 20;

// Invalid UTF-8 in strings (from a candidate's error text, say) is replaced, never refused.
// Throws std::length_error above max_frame_bytes.
std::string encode_frame(const nlohmann::json& message);

// Length of the body that follows a header of frame_header_bytes.
std::uint32_t decode_frame_length(const char* header);

}  // namespace anneal::evaluator
