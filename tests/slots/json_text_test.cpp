#include "slots/json_text.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace tessera::slots_test {
namespace json_text_test {

using slots::json_string;

TEST(JsonText, QuotesAndControlCharactersAreEscaped) {
  EXPECT_EQ(json_string("/lib/libm.so"), "\"/lib/libm.so\"");
  EXPECT_EQ(json_string("a\"b\\c\nd\x1f"), "\"a\\\"b\\\\c\\u000ad\\u001f\"");
  EXPECT_EQ(json_string(""), "\"\"");
}

TEST(JsonText, EachBytePairIsReadBackOrNamed) {
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; ++second) {
      const std::string text = {static_cast<char>(first), static_cast<char>(second)};
      const std::string json = json_string(text);
      // nlohmann's parser accepts no lone surrogate, and knows what UTF-8 is.
      const bool is_utf_8 = nlohmann::json::accept("\"" + std::string(first < 0x80 ? "" : text.substr(0, 1)) +
                                                   std::string(second < 0x80 ? "" : text.substr(1)) + "\"");
      if (is_utf_8)
        EXPECT_EQ(nlohmann::json::parse(json).get<std::string>(), text) << json;
      else
        EXPECT_NE(json.find("\\udc"), std::string::npos) << json;
    }
  }
}

TEST(JsonText, BytesThatAreNoCharacterBecomeThoseOfPython) {
  EXPECT_EQ(json_string("\xff"), "\"\\udcff\"");
  EXPECT_EQ(json_string("caf\xc3\xa9"), "\"caf\xc3\xa9\"");
  EXPECT_EQ(json_string("\xe2\x82\xac\xf0\x9f\x98\x80"), "\"\xe2\x82\xac\xf0\x9f\x98\x80\"");
  // Cut off, longer than needed, a surrogate, and too large a number.
  EXPECT_EQ(json_string("\xe2\x82"), "\"\\udce2\\udc82\"");
  EXPECT_EQ(json_string("\xc0\xaf"), "\"\\udcc0\\udcaf\"");
  EXPECT_EQ(json_string("\xe0\x80\xaf"), "\"\\udce0\\udc80\\udcaf\"");
  EXPECT_EQ(json_string("\xed\xb2\x80"), "\"\\udced\\udcb2\\udc80\"");
  EXPECT_EQ(json_string("\xf0\x80\x80\x80"), "\"\\udcf0\\udc80\\udc80\\udc80\"");
  EXPECT_EQ(json_string("\xf4\x90\x80\x80"), "\"\\udcf4\\udc90\\udc80\\udc80\"");
}

}  // namespace json_text_test
}  // namespace tessera::slots_test
