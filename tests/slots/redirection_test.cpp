#include "slots/redirection.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <utility>

#include "core/error.hpp"
#include "tests/slots/some_libraries.hpp"
#include "tests/temporary_folder.hpp"

extern "C" {
void* tessera_slots_open(const char* const* libraries, std::size_t count, char* error, std::size_t error_size);
int tessera_slots_apply(void* redirection);
int tessera_slots_undo(void* redirection);
std::size_t tessera_slots_report(void* redirection, char* text, std::size_t size);
}

namespace tessera::slots_test {
namespace redirection_test {

using nlohmann::json;
using slots::Redirection;
using slots::Slot;
using testing::HasSubstr;
using testing::Not;
using Names = std::set<std::string>;

// Of libraries/blas.c.
constexpr int vendor = 10, wide_vendor = 20, own = 30, assigned = 40, ours = 100;

std::unique_ptr<Redirection> to_ours(std::vector<std::string> leave_alone = {}) {
  return std::make_unique<Redirection>(std::vector{path_of("ours")}, std::move(leave_alone));
}

/// The symbols of a list of the report by file.
std::map<std::string, Names> symbols_in(const Redirection& redirection, const char* list) {
  const json report = json::parse(redirection.report());
  std::map<std::string, Names> found;
  for (const json& object : report.at(list))
    found[object.at("object").get<std::string>()] = object.at("symbols").get<Names>();
  return found;
}

void expect_calls(const OpenLibrary& client, int plain, int unambiguous) {
  EXPECT_EQ(client("call_product"), plain) << client.file();
  EXPECT_EQ(client("call_product_64"), unambiguous + 1) << client.file();
  EXPECT_EQ(client("call_scipy_product"), unambiguous + 2) << client.file();
}

TEST(SlotRedirection, CallsThatAreNotBoundYetComeToUsAndGoBack) {
  const OpenLibrary client("lazy");
  const auto before = client.values();
  const auto redirection = to_ours();
  const int written = redirection->apply();
  EXPECT_EQ(written, changed_slots(client, before));
  EXPECT_GE(written, 3);
  expect_calls(client, ours, ours);
  EXPECT_EQ(redirection->undo(), written);
  // The slots lead to the code that binds them once more.
  EXPECT_EQ(client.values(), before);
  expect_calls(client, vendor, vendor);
}

TEST(SlotRedirection, CallsThatAreBoundComeToUsAndGoBack) {
  const OpenLibrary client("lazy");
  expect_calls(client, vendor, vendor);
  const auto before = client.values();
  const auto redirection = to_ours();
  const int written = redirection->apply();
  EXPECT_EQ(written, changed_slots(client, before));
  expect_calls(client, ours, ours);
  EXPECT_EQ(redirection->undo(), written);
  EXPECT_EQ(client.values(), before);
  expect_calls(client, vendor, vendor);
}

TEST(SlotRedirection, ReadOnlySlotsAreWrittenAndStayReadOnly) {
  const OpenLibrary client("relro");
  const auto protections = [&] {
    std::map<void**, std::string> found;
    for (const Slot& slot : client.slots()) found[slot.address] = protection_at(slot.address);
    return found;
  };
  const auto before = protections();
  for (const Slot& slot : client.slots()) {
    if (!slot.is_relro) continue;
    ASSERT_EQ(before.at(slot.address), "r--p") << slot.name;
  }
  const auto redirection = to_ours();
  EXPECT_GE(redirection->apply(), 3);
  expect_calls(client, ours, ours);
  EXPECT_EQ(protections(), before);
  EXPECT_GE(redirection->undo(), 3);
  expect_calls(client, vendor, vendor);
  EXPECT_EQ(protections(), before);
}

TEST(SlotRedirection, PointersInDataAreSlots) {
  const OpenLibrary client("lazy");
  const auto redirection = to_ours();
  redirection->apply();
  EXPECT_EQ(client("call_pointer"), ours + 2);
  EXPECT_EQ(client("call_table"), 2 * ours + 3);
  redirection->undo();
  EXPECT_EQ(client("call_pointer"), vendor + 2);
  EXPECT_EQ(client("call_table"), 2 * vendor + 3);
}

TEST(SlotRedirection, PointersThatTheProgramHasAssignedStay) {
  const OpenLibrary before("lazy"), after("relro");
  before.function_at("assign_pointer")();
  const auto redirection = to_ours();
  redirection->apply();
  after.function_at("assign_pointer")();
  EXPECT_EQ(before("call_pointer"), assigned);
  EXPECT_EQ(before("call_table"), 2 * ours + 3);
  EXPECT_EQ(redirection->apply(), 0);
  EXPECT_EQ(after("call_pointer"), assigned);
  redirection->undo();
  EXPECT_EQ(before("call_pointer"), assigned);
  EXPECT_EQ(after("call_pointer"), assigned);
}

TEST(SlotRedirection, CallsInsideABlasStayInside) {
  const OpenLibrary blas("vendor");
  const auto redirection = to_ours();
  redirection->apply();
  EXPECT_EQ(blas("inner_product"), vendor);
  EXPECT_EQ(symbols_in(*redirection, "defines").at(blas.file()), (Names{"product_", "product_64_", "scipy_product_"}));
}

TEST(SlotRedirection, AModuleWithABlasOfItsOwnIsNamed) {
  const OpenLibrary client("own");
  const auto redirection = to_ours();
  redirection->apply();
  expect_calls(client, own, ours);
  EXPECT_EQ(symbols_in(*redirection, "defines").at(client.file()), Names{"product_"});
  EXPECT_EQ(symbols_in(*redirection, "redirected").at(client.file()), (Names{"product_64_", "scipy_product_"}));
}

TEST(SlotRedirection, FunctionsThatAreMissingStayMissing) {
  const OpenLibrary client("relro");
  const auto redirection = to_ours();
  redirection->apply();
  EXPECT_EQ(client("call_product_absent"), -1);
}

TEST(SlotRedirection, OnlyFunctionsOfABlasAreTaken) {
  const OpenLibrary client("relro");
  const auto redirection = to_ours();
  redirection->apply();
  EXPECT_EQ(client("call_tessera_product"), vendor + 3);
  EXPECT_EQ(client("call_product_data"), vendor + 5);
}

TEST(SlotRedirection, PlainNamesOfABlasWithWideIntegersStay) {
  for (const bool is_bound : {false, true}) {
    const OpenLibrary client("wide");
    if (is_bound) expect_calls(client, wide_vendor, wide_vendor);
    const auto redirection = to_ours();
    redirection->apply();
    expect_calls(client, wide_vendor, ours);
    redirection->undo();
    expect_calls(client, wide_vendor, wide_vendor);
  }
}

// The second apply() has no new objects. Its slots have other values, as calls have bound them meanwhile.
TEST(SlotRedirection, SlotsThatStayAreLookedAtAgainWhenTheyAreBound) {
  const OpenLibrary client("wide"), other("lazy");
  const auto redirection = to_ours();
  redirection->apply();
  expect_calls(client, wide_vendor, ours);
  EXPECT_EQ(redirection->apply(), 0);
  expect_calls(client, wide_vendor, ours);
  expect_calls(other, ours, ours);
}

TEST(SlotRedirection, OneApplicationAfterAnUndoIsEnough) {
  const OpenLibrary client("lazy"), other("relro");
  const auto redirection = to_ours();
  const int written = redirection->apply();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(redirection->apply(), 0);
    EXPECT_EQ(redirection->undo(), written);
    expect_calls(other, vendor, vendor);
    EXPECT_EQ(redirection->apply(), written);
    expect_calls(client, ours, ours);
  }
}

// Known objects are told from new ones also when some are closed and as many are opened in between.
TEST(SlotRedirection, ObjectsThatTakeThePlaceOfOthersAreFound) {
  const OpenLibrary blas("vendor"), stays("relro");
  const auto redirection = to_ours();
  for (const char* const name : {"later", "lazy", "later", "lazy"}) {
    const OpenLibrary client(name);
    EXPECT_GT(redirection->apply(), 0);
    expect_calls(client, ours, ours);
    expect_calls(stays, ours, ours);
  }
}

TEST(SlotRedirection, ObjectsThatAreOpenedLaterAreFound) {
  const OpenLibrary first("lazy");
  const auto redirection = to_ours();
  EXPECT_GT(redirection->apply(), 0);
  EXPECT_EQ(redirection->apply(), 0);
  const OpenLibrary second("later");
  expect_calls(second, vendor, vendor);
  EXPECT_GT(redirection->apply(), 0);
  expect_calls(first, ours, ours);
  expect_calls(second, ours, ours);
  EXPECT_EQ(redirection->apply(), 0);
  EXPECT_EQ(symbols_in(*redirection, "redirected").size(), 2u);
  redirection->undo();
  expect_calls(first, vendor, vendor);
  expect_calls(second, vendor, vendor);
}

TEST(SlotRedirection, ASlotThatTheLoaderBindsAfterwardsIsRedirectedAgain) {
  const OpenLibrary client("lazy"), blas("vendor");
  const auto redirection = to_ours();
  redirection->apply();
  // The loader writes a slot in this way, whenever a call that has begun before reaches it.
  std::map<void**, void*> bound;
  for (const Slot& slot : client.slots()) {
    if (slot.is_data || !Names{"product_", "product_64_", "scipy_product_"}.count(slot.name)) continue;
    bound[slot.address] = *slot.address = reinterpret_cast<void*>(blas.function_at(slot.name));
  }
  ASSERT_EQ(bound.size(), 3u);
  EXPECT_EQ(redirection->apply(), 3);
  expect_calls(client, ours, ours);
  redirection->undo();
  for (const auto& [slot, value] : bound) EXPECT_EQ(slots::value_of(slot), value);
}

TEST(SlotRedirection, ObjectsThatHaveBeenClosedAreForgotten) {
  OpenLibrary closed("own");
  const OpenLibrary client("lazy");
  const auto before = client.values();
  const auto redirection = to_ours();
  redirection->apply();
  const int changed = changed_slots(client, before);
  ASSERT_EQ(symbols_in(*redirection, "defines").count(closed.file()), 1u);
  closed.close();
  ASSERT_FALSE(closed.is_loaded());
  EXPECT_EQ(redirection->undo(), changed);
  EXPECT_THAT(redirection->report(), HasSubstr("\"lost\":[]"));
  expect_calls(client, vendor, vendor);
  EXPECT_EQ(redirection->apply(), changed);
  EXPECT_THAT(redirection->report(), Not(HasSubstr(closed.file())));
}

TEST(SlotRedirection, ObjectsThatAreOpenedOnceMoreAreRedirectedOnceMore) {
  const OpenLibrary blas("vendor");
  const auto redirection = to_ours();
  int written = 0;
  for (int i = 0; i < 3; ++i) {
    OpenLibrary client("later");
    expect_calls(client, vendor, vendor);
    const int now = redirection->apply();
    EXPECT_GT(now, 0);
    EXPECT_TRUE(i == 0 || now == written);
    written = now;
    expect_calls(client, ours, ours);
    client.close();
    ASSERT_FALSE(client.is_loaded());
  }
  EXPECT_EQ(redirection->apply(), 0);
  EXPECT_TRUE(symbols_in(*redirection, "redirected").empty());
  EXPECT_EQ(redirection->undo(), 0);
}

TEST(SlotRedirection, ObjectsThatAreToBeLeftAloneStay) {
  const OpenLibrary client("lazy"), other("later");
  const auto redirection = to_ours({"/nowhere/", "test_slots/lazy."});
  redirection->apply();
  expect_calls(client, vendor, vendor);
  expect_calls(other, ours, ours);
}

TEST(SlotRedirection, LibrariesOfTheNameOfOursStay) {
  const OpenLibrary blas("vendor");
  const test::TemporaryFolder folder;
  std::filesystem::copy_file(path_of("lazy"), folder.path("libtessera_other.so"));
  std::filesystem::copy_file(path_of("lazy"), folder.path("other.so"));
  const OpenLibrary named(folder.path("libtessera_other.so")), other(folder.path("other.so"));
  const auto redirection = to_ours();
  redirection->apply();
  expect_calls(named, vendor, vendor);
  expect_calls(other, ours, ours);
}

// In a process of its own, since our libraries are never closed.
TEST(SlotRedirection, OurLibrariesStay) {
  const auto check = [] {
    const OpenLibrary client("lazy");
    EXPECT_EQ(Redirection({path_of("ours"), path_of("lazy")}).apply(), 0);
    expect_calls(client, vendor, vendor);
    EXPECT_GT(Redirection({path_of("ours")}).apply(), 0);
  };
  EXPECT_EXIT((check(), _exit(HasFailure() ? 1 : 0)), testing::ExitedWithCode(0), "");
}

TEST(SlotRedirection, TheFirstLibraryThatHasANameProvidesIt) {
  const OpenLibrary client("relro"), blas("wide_vendor");
  for (const bool is_first : {true, false}) {
    std::vector<std::string> libraries = {path_of("ours"), path_of("wide_vendor")};
    if (!is_first) std::swap(libraries[0], libraries[1]);
    Redirection redirection(libraries);
    redirection.apply();
    EXPECT_EQ(client("call_product_64"), (is_first ? ours : wide_vendor) + 1);
    // A function of the second one only if the first has none.
    EXPECT_EQ(client("call_product_data"), wide_vendor + 5);
  }
}

TEST(SlotRedirection, TheEndOfARedirectionUndoesIt) {
  const OpenLibrary client("lazy");
  const auto before = client.values();
  {
    const auto redirection = to_ours();
    redirection->apply();
    ASSERT_NE(client.values(), before);
  }
  EXPECT_EQ(client.values(), before);
}

TEST(SlotRedirection, TheReportNamesFilesAndSymbols) {
  const OpenLibrary client("lazy");
  const auto redirection = to_ours();
  EXPECT_EQ(redirection->report(), R"({"redirected":[],"defines":[],"lost":[]})");
  redirection->apply();
  EXPECT_EQ(symbols_in(*redirection, "redirected").at(client.file()),
            (Names{"product_", "product_64_", "scipy_product_"}));
  EXPECT_EQ(symbols_in(*redirection, "defines").count(client.file()), 0u);
  redirection->undo();
  EXPECT_TRUE(symbols_in(*redirection, "redirected").empty());
  EXPECT_EQ(symbols_in(*redirection, "defines").count(path_of("vendor")), 1u);
}

TEST(SlotRedirection, AFileMayHaveAnyName) {
  const OpenLibrary blas("vendor");
  const test::TemporaryFolder folder;
  const std::string file = folder.path("a\"b\n\xc3\xa9\xff.so");
  std::filesystem::copy_file(path_of("lazy"), file);
  const OpenLibrary client(file);
  const auto redirection = to_ours();
  redirection->apply();
  expect_calls(client, ours, ours);
  EXPECT_THAT(redirection->report(), HasSubstr("/a\\\"b\\u000a\xc3\xa9\\udcff.so\""));
}

// Memory of a file that is open for reading only never becomes writable.
TEST(SlotRedirection, SlotsThatCannotBeWrittenAreReported) {
  const test::TemporaryFolder folder;
  const OpenLibrary client("relro"), other("lazy");
  const auto page_bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::set<std::uintptr_t> pages;
  for (const Slot& slot : client.slots())
    if (slot.is_relro) pages.insert(reinterpret_cast<std::uintptr_t>(slot.address) / page_bytes * page_bytes);
  for (const std::uintptr_t page : pages) {
    std::ofstream(folder.path("page"), std::ios::binary | std::ios::trunc)
        .write(reinterpret_cast<const char*>(page), static_cast<std::streamsize>(page_bytes));
    const int file = open(folder.path("page").c_str(), O_RDONLY | O_CLOEXEC);
    ASSERT_GE(file, 0);
    std::filesystem::remove(folder.path("page"));
    void* const mapped = mmap(reinterpret_cast<void*>(page), page_bytes, PROT_READ, MAP_SHARED | MAP_FIXED, file, 0);
    close(file);
    ASSERT_EQ(mapped, reinterpret_cast<void*>(page));
  }
  const auto redirection = to_ours();
  EXPECT_GT(redirection->apply(), 0);
  expect_calls(client, vendor, vendor);
  expect_calls(other, ours, ours);
  // The pointer in writable data.
  EXPECT_EQ(symbols_in(*redirection, "redirected").at(client.file()), Names{"scipy_product_"});
  const json lost = json::parse(redirection->report()).at("lost");
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].at("object"), client.file());
  EXPECT_THAT(lost[0].at("reason").get<std::string>(), HasSubstr("cannot be made writable: Permission denied"));
  const std::string report = redirection->report();
  EXPECT_EQ(redirection->apply(), 0);
  EXPECT_EQ(redirection->report(), report);
}

// Calls go to one of the two at any time, whether the loader binds them meanwhile or not.
TEST(SlotRedirection, ThreadsMayCallMeanwhile) {
  constexpr int rounds = 100;
  const OpenLibrary lazy("lazy"), relro("relro");
  const auto redirection = to_ours();
  std::atomic<bool> ends = false;
  std::atomic<long> to_vendor = 0, to_us = 0, elsewhere = 0;
  std::vector<std::thread> threads;
  for (const OpenLibrary* const client : {&lazy, &relro}) {
    threads.emplace_back([&, call = client->function_at("call_product"), other = client->function_at("call_pointer")] {
      while (!ends) {
        for (const int value : {call(), other() - 2})
          ++(value == vendor ? to_vendor : value == ours ? to_us : elsewhere);
      }
    });
  }
  threads.emplace_back([&] {
    while (!ends) OpenLibrary("later")("call_product_64");
  });
  threads.emplace_back([&] {
    while (!ends) redirection->report();
  });
  for (int i = 0; i < rounds || to_vendor == 0 || to_us == 0; ++i) {
    redirection->apply();
    std::this_thread::yield();
    redirection->undo();
    std::this_thread::yield();
  }
  ends = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(elsewhere, 0);
  redirection->undo();
  expect_calls(lazy, vendor, vendor);
  expect_calls(relro, vendor, vendor);
}

TEST(SlotRedirection, AWrongPathIsNamed) {
  try {
    Redirection({path_of("ours"), "/nowhere/libnothing.so"});
    FAIL() << "opened";
  } catch (const NotAvailable& error) {
    EXPECT_THAT(error.what(), HasSubstr("/nowhere/libnothing.so"));
  }
}

TEST(SlotRedirectionApi, RedirectsAndReports) {
  const OpenLibrary client("relro");
  const std::string path = path_of("ours");
  const char* const libraries[] = {path.c_str()};
  char error[100] = "old";
  // It is never freed.
  static void* const handle = tessera_slots_open(libraries, 1, error, sizeof error);
  ASSERT_NE(handle, nullptr);
  EXPECT_STREQ(error, "");
  const int written = tessera_slots_apply(handle);
  EXPECT_GT(written, 0);
  EXPECT_EQ(tessera_slots_apply(handle), 0);
  expect_calls(client, ours, ours);

  const std::size_t size = tessera_slots_report(handle, nullptr, 0);
  std::string text(size + 1, 'x');
  EXPECT_EQ(tessera_slots_report(handle, text.data(), size), size);
  EXPECT_EQ(text[size - 1], '\0');
  EXPECT_EQ(text[size], 'x');
  EXPECT_EQ(json::parse(text.substr(0, size - 1)).at("redirected").at(0).at("object"), client.file());
  std::string begin(8, 'x');
  EXPECT_EQ(tessera_slots_report(handle, begin.data(), 5), size);
  EXPECT_EQ(begin, std::string("{\"re\0xxx", 8));

  EXPECT_EQ(tessera_slots_undo(handle), written);
  expect_calls(client, vendor, vendor);
}

TEST(SlotRedirectionApi, FailuresAreTold) {
  const char* const libraries[] = {"/nowhere/libnothing.so"};
  char error[200] = "";
  errno = 77;
  EXPECT_EQ(tessera_slots_open(libraries, 1, error, sizeof error), nullptr);
  EXPECT_EQ(errno, 77);
  EXPECT_THAT(error, HasSubstr("/nowhere/libnothing.so"));
  char cut[9] = "xxxxxxxx";
  EXPECT_EQ(tessera_slots_open(libraries, 1, cut, 5), nullptr);
  EXPECT_EQ(std::string(cut, 9), std::string("/now\0xxx\0", 9));
  EXPECT_EQ(tessera_slots_open(libraries, 1, nullptr, 0), nullptr);
  EXPECT_EQ(tessera_slots_apply(nullptr), -1);
  EXPECT_EQ(tessera_slots_undo(nullptr), -1);
  EXPECT_EQ(tessera_slots_report(nullptr, error, sizeof error), 0u);
}

}  // namespace redirection_test
}  // namespace tessera::slots_test
