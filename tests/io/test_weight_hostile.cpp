#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/torch_bytes.h"
#include "tests/support/weight_refusal.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;
using torch_bytes::View;

TEST(Hostile, FilesOfAnotherKind) {
  expect_refused("", "it is empty");
  expect_refused("x", "not a weight file");
  expect_refused("The weights are in the other folder.\n", "not a weight file");
  expect_refused(std::string(1 << 20, '\0'), "not a weight file");
  expect_refused("\x80\x02}q\x00.", "before version 1.6");
  expect_refused("PK\x03\x04 and then nothing of the kind", "not a sound zip archive");
  expect_refused("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 5030000000\n", "Git LFS");
  expect_refused(torch_bytes::archive({{"readme.txt", "hello"}}), "data.pkl is missing");
}

std::string safetensors(const std::string& header, std::size_t data = 0) {
  return torch_bytes::raw(static_cast<uint64_t>(header.size())) + header + std::string(data, '\0');
}

TEST(Hostile, SafetensorsHeaders) {
  const auto one = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return R"({"a":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
  };
  ASSERT_EQ(refusal(safetensors(one("F32", "[2]", "[0,8]"), 8)), "");
  expect_refused(torch_bytes::raw(~uint64_t{0}) + "{}", "reaches past its end");
  expect_refused(torch_bytes::raw(uint64_t{1} << 40) + "{}", "reaches past its end");
  expect_refused(torch_bytes::raw(uint64_t{3}) + "{}", "reaches past its end");
  expect_refused(safetensors("{" + std::string(17 << 20, ' ') + "}"), "larger than 16 MB");
  expect_refused(safetensors("{\"a\":"), "not valid JSON");
  expect_refused(safetensors("{}}"), "not valid JSON");
  expect_refused(safetensors(one("F32", "[2]", "[0,8]"), 7), "cut off");
  expect_refused(safetensors(one("F32", "[2]", "[0,8]"), 9), "data follow");
  expect_refused(safetensors(one("F32", "[2]", "[4,12]"), 12), "overlap or leave gaps");
  expect_refused(safetensors(one("F32", "[2]", "[8,0]"), 8), "do not match");
  expect_refused(safetensors(one("F32", "[3]", "[0,8]"), 8), "do not match");
  expect_refused(safetensors(one("F32", "[-2]", "[0,8]"), 8), "negative");
  expect_refused(safetensors(one("F32", "[2.0]", "[0,8]"), 8), "not an integer");
  expect_refused(safetensors(one("F32", "[4611686018427387904,4611686018427387904]", "[0,8]"), 8),
                 "overflows");
  expect_refused(safetensors(one("F32", "[4611686018427387904,2]", "[0,8]"), 8), "overflows");
  expect_refused(safetensors(one("F32", "[0,4611686018427387904,8]", "[0,0]")), "overflows");
  expect_refused(safetensors(one("F32", "[18446744073709551615]", "[0,8]"), 8), "too large");
  expect_refused(safetensors(one("F32", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,4]"), 4), "too many");
  expect_refused(safetensors(one("Q4_0", "[2]", "[0,8]"), 8), "unknown dtype 'Q4_0'");
  expect_refused(safetensors(one("I64", "[1]", "[0,8]"), 8), "tensor 'a' is of type I64");
  expect_refused(safetensors(R"({"a":{"dtype":"F32","shape":[2]}})", 8), "missing");
  expect_refused(safetensors(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}})", 8),
                 "unknown key");
  expect_refused(safetensors(R"({"a":{"dtype":"F32","dtype":"F32"}})"), "there twice");
  expect_refused(safetensors(R"({"a":[0,8]})"), "where none belongs");
  expect_refused(safetensors(R"({"a":7})"), "where none belongs");
  expect_refused(safetensors(R"({"":{}})"), "empty or too long");
  expect_refused(safetensors(R"({"a\nb":{"dtype":5}})"), "'a?b'");
  expect_refused(safetensors(std::string("{\"a\":") + std::string(1 << 20, '[')), "where none belongs");
  const std::string tensor = R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  expect_refused(safetensors("{\"a\":" + tensor + ",\"a\":" + tensor + "}", 8), "there twice");
  expect_refused(safetensors("{\"a\":" + tensor + ",\"b\":" + tensor + "}", 8), "overlap or leave gaps");
}

std::string with_pickle(const std::string& pickle) {
  return torch_bytes::archive({{"data.pkl", pickle}, {"data/0", torch_bytes::floats({1, 2, 3, 4})}});
}

TEST(Hostile, PicklesThatWouldRunCode) {
  const std::string command = torch_bytes::text("touch /tmp/vggt_pickle_ran");
  for (const char* global :
       {"os\nsystem", "posix\nsystem", "builtins\neval", "builtins\nexec", "__builtin__\neval",
        "subprocess\nPopen", "torch\nload", "torch.hub\nload", "torch._utils\n__import__",
        "collections\nOrderedDict.__init__", "__torch__x\nA", "numpy.core.multiarray\n_reconstruct"}) {
    const std::string body = "c" + std::string(global) + "\n(" + command + "tR";
    expect_refused(with_pickle(torch_bytes::pickle(body)), "is not allowed");
    expect_refused(with_pickle(torch_bytes::state_dict({{"a", body}})), "is not allowed");
  }
  // The other opcodes that call something: i, o, \x81 with a class, the extension codes of copyreg,
  // STACK_GLOBAL of protocol 4.
  expect_refused(with_pickle(torch_bytes::pickle("(" + command + "ios\nsystem\n")),
                 "opcode 105 is not allowed");
  expect_refused(with_pickle(torch_bytes::pickle("(cos\nsystem\n" + command + "o")), "is not allowed");
  expect_refused(with_pickle(torch_bytes::pickle("ccollections\nOrderedDict\n)\x81")),
                 "class that is not allowed");
  expect_refused(with_pickle(torch_bytes::pickle("\x82\x01")), "opcode 130 is not allowed");
  expect_refused(with_pickle(torch_bytes::pickle("\x8c\x02os\x8c\x06system\x93")), "is not allowed");
  expect_refused(with_pickle("\x80\x04]."), "not of protocol 2");
  EXPECT_FALSE(fs::exists("/tmp/vggt_pickle_ran"));
}

TEST(Hostile, PicklesThatDoNotMakeSense) {
  const auto refused = [](const std::string& body, const std::string& reason) {
    expect_refused(with_pickle(torch_bytes::pickle(body)), reason);
  };
  refused("", "does not end with one value");
  refused("}}", "does not end with one value");
  refused("(}", "does not end with one value");
  refused("}.}", "data follow its end");
  refused("}s", "missing on its stack");
  refused("t", "a mark is missing");
  refused("K", "ends too early");
  refused(
      "X\xff\xff\xff\xff"
      "a",
      "ends too early");
  refused("\x8a\xff" + std::string(255, '\x7f'), "more than 64 bits");
  refused("\x8b\xff\xff\xff\x7f", "opcode 139 is not allowed");
  refused("h\x05", "never set");
  refused("}r\xff\xff\xff\x7f", "memo number is too large");
  refused(std::string(1000, '('), "nested too deeply");
  refused("}" + std::string(70000, '2'), "not allowed");
  refused("(" + std::string(70000, 'N'), "stack is too deep");
  refused("}(" + torch_bytes::text("a") + "u", "lacks its value");
  refused("NNs", "missing on its stack");
  refused("N" + torch_bytes::text("a") + "Ns", "takes none");
  refused("}Nb", "it holds no tensors");
  refused(
      "]q\x01h\x01"
      "a",
      "it holds no state dict");
  refused("K\x01", "it holds no state dict");
  refused("}K\x01Ns", "is not a text");
  refused("}" + torch_bytes::text("a") + "K\x01s", "is not a tensor");
  expect_refused(with_pickle("\x80\x02}" + std::string(17 << 20, ' ')), "larger than 16 MB");
  // Each of 60 values contains the one before it twice: a walk through all of them would meet 2^60 leaves.
  std::string bomb = ")";
  for (char slot = 0; slot < 60; ++slot) bomb += std::string("q") + slot + "h" + slot + "\x86";
  refused(bomb, "it holds no state dict");
}

// A module that contains the next one twice, or itself, must not be walked without end.
TEST(Hostile, ModuleTreesThatGrow) {
  const std::string make = std::string("c__torch__\nA\n)\x81");
  std::string nested = make + "}q" + '\0' + std::string("b");
  for (char slot = 0; slot < 40; ++slot)
    nested = make + "}(" + torch_bytes::text("x") + nested + "q" + static_cast<char>(slot + 1) +
             torch_bytes::text("y") + "h" + static_cast<char>(slot + 1) + "ub";
  expect_refused(with_pickle(torch_bytes::pickle(nested)), "too many attributes");
  const std::string cycle = make + "q\x01}" + torch_bytes::text("x") + "h\x01sb";
  expect_refused(with_pickle(torch_bytes::pickle(cycle)), "nested too deeply");
}

TEST(Hostile, TensorsOutsideTheirStorage) {
  const auto refused = [](const View& view, const std::string& reason) {
    expect_refused(with_pickle(torch_bytes::state_dict({{"a", view.opcodes()}})), "tensor 'a': ");
    expect_refused(with_pickle(torch_bytes::state_dict({{"a", view.opcodes()}})), reason);
  };
  constexpr int64_t kHuge = int64_t{1} << 62;
  refused({"0", 4, 0, {5}, {1}}, "past its storage");
  refused({"0", 4, 1, {4}, {1}}, "past its storage");
  refused({"0", 4, 0, {2}, {4}}, "past its storage");
  refused({"0", 4, -1, {2}, {1}}, "past its storage");
  refused({"0", 4, kHuge, {2}, {1}}, "past its storage");
  refused({"0", 4, 0, {-2}, {1}}, "negative size");
  refused({"0", 4, 3, {2}, {-1}}, "negative stride");
  refused({"0", 4, 0, {2, 2}, {kHuge, kHuge}}, "strides overflow");
  refused({"0", 4, 0, {2, 2}, {kHuge, 1}}, "past its storage");
  refused({"0", 4, 0, {3, 1}, {kHuge, 1}}, "strides overflow");
  refused({"0", 4, 0, {kHuge, kHuge}, {0, 0}}, "size overflows");
  refused({"0", 4, 0, {1 << 30}, {0}}, "past its storage");
  refused({"0", 4, 0, {2, 2}, {1}}, "one stride for each dimension");
  refused({"0", 4, 0, std::vector<int64_t>(20, 1), std::vector<int64_t>(20, 1)}, "too many dimensions");
  refused({"0", 5, 0, {4}, {1}}, "larger than its record");
  refused({"0", -1, 0, {0}, {1}}, "larger than its record");
  refused({"0", kHuge, 0, {4}, {1}}, "larger than its record");
  refused({"1", 4, 0, {4}, {1}}, "'data/1' is missing");
  refused({"../../etc/passwd", 4, 0, {4}, {1}}, "is missing");
  expect_refused(
      with_pickle(torch_bytes::state_dict({{"a", View{"0", 4, 0, {4}, {1}, "QInt8Storage"}.opcodes()}})),
      "torch.QInt8Storage is not allowed");
  const std::string longs = View{"0", 2, 0, {2}, {1}, "LongStorage"}.opcodes();
  expect_refused(with_pickle(torch_bytes::state_dict({{"a", longs}})), "tensor 'a' is of type I64");
  const std::string whole = View{"0", 4, 0, {4}, {1}}.opcodes();
  expect_refused(with_pickle(torch_bytes::state_dict({{"a", whole}, {"a", whole}})), "there twice");
  std::vector<std::pair<std::string, std::string>> many;
  const std::string remember = whole + "q\x01";
  for (int i = 0; i < 3000; ++i) many.emplace_back("t" + std::to_string(i), i == 0 ? remember : "h\x01");
  const std::string shared = torch_bytes::archive(
      {{"data.pkl", torch_bytes::state_dict(many)}, {"data/0", torch_bytes::floats({1, 2, 3, 4})}});
  EXPECT_EQ(refusal(shared), "");  // 3,000 names of 16 bytes each are less than the file
  const std::string storage(1 << 20, '\0');
  many[0].second = View{"0", 1 << 18, 0, {1 << 18}, {1}}.opcodes() + "q\x01";
  expect_refused(torch_bytes::archive({{"data.pkl", torch_bytes::state_dict(many)}, {"data/0", storage}}),
                 "four times the size of the file");
}

// Changes a number of `sizeof(value)` bytes at `offset` behind the last `signature`.
template <typename T>
std::string patched(std::string bytes, const std::string& signature, std::size_t offset, T value) {
  return bytes.replace(bytes.rfind(signature) + offset, sizeof(T), torch_bytes::raw(value));
}

TEST(Hostile, ZipDirectories) {
  const std::string pickle = torch_bytes::state_dict({{"a", View{"0", 4, 0, {4}, {1}}.opcodes()}});
  const std::string data = torch_bytes::floats({1, 2, 3, 4});
  const std::string sound = with_pickle(pickle);
  const std::string entry = "PK\x01\x02", local = "PK\x03\x04", end = "PK\x05\x06", end64 = "PK\x06\x06",
                    locator = "PK\x06\x07";
  ASSERT_EQ(refusal(sound), "");
  const auto archive = [&](const std::string& name, const std::string& content) {
    return torch_bytes::archive({{"data.pkl", pickle}, {"data/0", data}, {name, content}});
  };
  for (const char* name : {"../evil", "/evil", "a//b", "a/../b", "./a", "a\\b", "a\nb", ""})
    expect_refused(archive(name, "x"), "unsafe name");
  expect_refused(archive("data/0", data), "there twice");
  expect_refused(archive("byteorder", "big"), "big-endian");
  expect_refused(archive("extra/config.json", std::string((1 << 20) + 1, ' ')), "larger than 1 MB");

  expect_refused(sound + "x", "end record is missing");
  expect_refused(patched<uint16_t>(sound, end, 20, 5), "comment");
  expect_refused(patched<uint16_t>(sound, end, 4, 1), "split");
  expect_refused(patched<uint16_t>(sound, end, 10, 9), "split");
  expect_refused(patched<uint32_t>(sound, end, 12, 9), "contradict each other");
  expect_refused(patched<uint32_t>(sound, end, 16, 9), "contradict each other");
  expect_refused(patched<uint64_t>(sound, end64, 24, 99), "split");
  expect_refused(patched<uint64_t>(sound, end64, 40, ~uint64_t{0}), "contradict each other");
  expect_refused(patched<uint64_t>(patched<uint32_t>(sound, end, 16, ~0U), end64, 48, ~uint64_t{0}),
                 "directory is not");
  expect_refused(patched<uint64_t>(patched<uint32_t>(sound, end, 12, ~0U), end64, 40, ~uint64_t{0}),
                 "directory is not");
  const std::string many = patched<uint64_t>(sound, end64, 24, uint64_t{1} << 60);
  expect_refused(patched<uint64_t>(patched<uint32_t>(many, end, 8, ~0U), end64, 32, uint64_t{1} << 60),
                 "too early");
  expect_refused(patched<uint64_t>(sound, locator, 8, 0), "locator");
  expect_refused(patched<uint64_t>(sound, locator, 8, ~uint64_t{0}), "locator");

  // The last entry is data/0.
  expect_refused(patched<uint16_t>(sound, entry, 8, 1), "encrypted");
  expect_refused(patched<uint16_t>(sound, entry, 10, 12), "unknown compression");
  expect_refused(patched<uint16_t>(sound, entry, 10, 8), "contradicts the directory");
  expect_refused(patched<uint32_t>(sound, entry, 20, 1 << 30), "sizes of");
  const std::string larger =
      patched<uint32_t>(patched<uint32_t>(sound, entry, 20, 1 << 30), entry, 24, 1 << 30);
  expect_refused(larger, "contradicts the directory");
  expect_refused(patched<uint32_t>(patched<uint32_t>(larger, local, 18, 1 << 30), local, 22, 1 << 30),
                 "past its end");
  expect_refused(patched<uint32_t>(sound, entry, 42, 1 << 30), "outside the archive");
  expect_refused(patched<uint32_t>(sound, entry, 42, 0), "contradicts the directory");
  expect_refused(patched<uint32_t>(sound, entry, 42, 7), "header of");
  expect_refused(patched<uint32_t>(sound, entry, 42, ~0U), "zip64 field is missing");
  expect_refused(patched<uint32_t>(sound, entry, 16, 7), "contradicts the directory");
  expect_refused(patched<uint32_t>(patched<uint32_t>(sound, entry, 16, 7), local, 14, 7), "checksum");
}

// Deflated entries, such as TorchScript's code, are allowed where they are not read. None is ever unpacked.
TEST(Hostile, DeflatedRecords) {
  const std::string pickle = torch_bytes::state_dict({{"a", View{"0", 4, 0, {4}, {1}}.opcodes()}});
  const auto deflated = [&](const torch_bytes::Records& records) {
    const std::string bytes = torch_bytes::archive(records);
    std::string changed = patched<uint16_t>(bytes, "PK\x01\x02", 10, 8);
    changed = patched<uint16_t>(changed, "PK\x03\x04", 8, 8);
    changed = patched<uint32_t>(changed, "PK\x01\x02", 24, 1U << 31);  // what it would unpack to
    return patched<uint32_t>(changed, "PK\x03\x04", 22, 1U << 31);
  };
  const std::string data = torch_bytes::floats({1, 2, 3, 4});
  EXPECT_EQ(refusal(deflated({{"data.pkl", pickle}, {"data/0", data}, {"code/bomb.py", "x"}})), "");
  expect_refused(deflated({{"data.pkl", pickle}, {"data/0", data}}), "'data/0' is compressed");
  expect_refused(deflated({{"data/0", data}, {"data.pkl", pickle}}), "'data.pkl' is compressed");
  expect_refused(deflated({{"data.pkl", pickle}, {"data/0", data}, {"extra/config.json", "{}"}}),
                 "compressed");
}

// Two entries may not share bytes: the data of one could otherwise pass for the header of another.
TEST(Hostile, OverlappingEntries) {
  const std::string pickle = torch_bytes::state_dict({{"a", View{"0", 4, 0, {4}, {1}}.opcodes()}});
  const std::string inner = torch_bytes::archive({{"data/0", torch_bytes::floats({1, 2, 3, 4})}});
  const std::string local = inner.substr(0, inner.find("PK\x01\x02"));
  std::string bytes =
      torch_bytes::archive({{"data.pkl", pickle}, {"outer", local}, {"data/0", local.substr(64)}});
  const std::size_t quoted = bytes.find(local);
  ASSERT_NE(quoted, std::string::npos);
  // The directory's entry data/0 now points at the header inside "outer".
  expect_refused(patched(bytes, "PK\x01\x02", 42, static_cast<uint32_t>(quoted)), "overlap");
}

}  // namespace
}  // namespace vggt
