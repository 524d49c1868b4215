#include "evaluator/protocol.h"

#include <nlohmann/json.hpp>
#include <stdexcept>

namespace anneal::evaluator {

std::string encode_frame(const nlohmann::json& message) {
  const std::string body = message.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (body.size() > max_frame_bytes) throw std::length_error("a frame of " + std::to_string(body.size()) + " bytes");
  const auto size = static_cast<std::uint32_t>(body.size());
  std::string frame;
  frame.reserve(frame_header_bytes + body.size());
  for (unsigned shift = 0; shift < 32; shift += 8) frame += static_cast<char>((size >> shift) & 0xff);
  frame += body;
  return frame;
}

std::uint32_t decode_frame_length(const char* header) {
  std::uint32_t size = 0;
  for (unsigned i = 0; i < 4; ++i) size |= static_cast<std::uint32_t>(static_cast<unsigned char>(header[i])) << (8 * i);
  return size;
}

}  // namespace anneal::evaluator
