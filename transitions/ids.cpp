#include "transitions/ids.h"

#include <boost/uuid/name_generator_sha1.hpp>
#include <boost/uuid/string_generator.hpp>
#include <boost/uuid/uuid_io.hpp>

namespace anneal::transitions {

std::string make_id(std::initializer_list<std::string_view> parts) {
  static const boost::uuids::uuid anneal_namespace =
      boost::uuids::string_generator()("6f1d2c3a-5b0e-4d7c-9a41-3f5e8c2b7d10");
  std::string name;
  bool first = true;
  for (std::string_view part : parts) {
    if (!first) name += '\x1f';
    first = false;
    name += part;
  }
  return boost::uuids::to_string(boost::uuids::name_generator_sha1(anneal_namespace)(name));
}

}  // namespace anneal::transitions
