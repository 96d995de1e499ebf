#include "slots/object_slots.hpp"

#include <gmock/gmock.h>

#include <cstdint>
#include <set>
#include <string>

#include "tests/slots/some_libraries.hpp"

namespace tessera::slots_test {
namespace object_slots_test {

using slots::HeldObject;
using slots::LoadedObject;
using slots::ObjectTables;
using slots::Slot;
using testing::Contains;
using testing::IsSupersetOf;
using testing::Not;

std::set<std::string> functions_of(const LoadedObject& object) {
  std::set<std::string> names;
  ObjectTables(object).for_each_function([&](const char* name) { names.insert(name); });
  return names;
}

// Libraries with either hash table. Functions that a library only uses are not among them, and its data is not.
TEST(ObjectSlots, FunctionsAreThoseThatTheObjectDefines) {
  const std::set<std::string> expected = {"product_",      "product_64_",   "scipy_product_", "tessera_product",
                                          "product_data_", "inner_product", "isamax_"};
  EXPECT_THAT(functions_of(OpenLibrary("vendor").object()), IsSupersetOf(expected));
  EXPECT_THAT(functions_of(OpenLibrary("wide_vendor").object()), IsSupersetOf(expected));
  EXPECT_THAT(functions_of(OpenLibrary("ours").object()), Not(Contains("product_data_")));
  for (const char* const client : {"lazy", "later"}) {
    const auto functions = functions_of(OpenLibrary(client).object());
    EXPECT_THAT(functions, Contains("call_product")) << client;
    EXPECT_THAT(functions, Not(Contains("product_"))) << client;
  }
}

// The kernel's own object has pointers that nobody has relocated.
TEST(ObjectSlots, PointersThatAreNotRelocatedAreRead) {
  for (const LoadedObject& object : slots::list_objects().objects) {
    if (object.id.name.find("vdso") == std::string::npos) continue;
    EXPECT_THAT(functions_of(object), Contains(testing::EndsWith("_clock_gettime")));
    return;
  }
  GTEST_SKIP() << "this kernel has no such object";
}

TEST(ObjectSlots, EachUseOfASymbolIsASlot) {
  for (const char* const client : {"lazy", "relro"}) {
    const OpenLibrary library(client);
    std::multiset<std::string> calls, data;
    for (const Slot& slot : library.slots()) (slot.is_data ? data : calls).insert(slot.name);
    // The pointer and the table.
    EXPECT_EQ(data.count("scipy_product_"), 2u) << client;
    EXPECT_EQ(data.count("product_64_"), 1u) << client;
    for (const char* const name : {"product_", "product_64_", "scipy_product_", "tessera_product", "product_data_"})
      EXPECT_EQ(calls.count(name), 1u) << client << ": " << name;
  }
}

TEST(ObjectSlots, SlotsThatBecomeReadOnlyAreTold) {
  const auto is_relro = [](const char* client, bool is_data) {
    std::set<bool> found;
    const OpenLibrary library(client);
    for (const Slot& slot : library.slots()) {
      if (std::string(slot.name) == "product_64_" && slot.is_data == is_data) found.insert(slot.is_relro);
    }
    return found;
  };
  EXPECT_EQ(is_relro("lazy", false), std::set<bool>{false});
  EXPECT_EQ(is_relro("lazy", true), std::set<bool>{true});
  EXPECT_EQ(is_relro("relro", false), std::set<bool>{true});
}

TEST(ObjectSlots, AnObjectIsHeldAfterItHasBeenClosed) {
  OpenLibrary library("lazy");
  const LoadedObject object = library.object();
  {
    const HeldObject held(object.id);
    ASSERT_TRUE(held);
    library.close();
    EXPECT_TRUE(library.is_loaded());
  }
  EXPECT_FALSE(library.is_loaded());
  EXPECT_FALSE(HeldObject(object.id));
}

TEST(ObjectSlots, AnotherObjectOfTheSameNameIsNotHeld) {
  const OpenLibrary library("lazy");
  slots::ObjectId other = library.object().id;
  other.base += 4096;
  EXPECT_FALSE(HeldObject(other));
  other = library.object().id;
  other.dynamic += 16;
  EXPECT_FALSE(HeldObject(other));
}

TEST(ObjectSlots, LoadsAreCounted) {
  const auto counts = [] {
    slots::LoadCounts found;
    int calls = 0;
    slots::look_at_loads([&](const slots::LoadCounts& now) {
      found = now;
      ++calls;
    });
    EXPECT_EQ(calls, 1);
    return found;
  };
  const slots::LoadCounts before = counts();
  EXPECT_EQ(slots::list_objects().counts.loaded, before.loaded);
  {
    // With the library that it needs.
    const OpenLibrary library("lazy");
    EXPECT_EQ(counts().loaded, before.loaded + 2);
    EXPECT_EQ(counts().closed, before.closed);
  }
  EXPECT_EQ(counts().loaded, before.loaded + 2);
  EXPECT_EQ(counts().closed, before.closed + 2);
}

TEST(ObjectSlots, AddressesHaveOwners) {
  const OpenLibrary library("vendor"), client("lazy");
  const auto objects = slots::list_objects().objects;
  const slots::AddressOwners owners(objects);
  const auto expect_owner = [&](const void* address, const LoadedObject& object) {
    const slots::ObjectId* const owner = owners.owner_of(address);
    ASSERT_NE(owner, nullptr);
    EXPECT_EQ(*owner, object.id);
  };
  for (const OpenLibrary* const opened : {&library, &client}) {
    const LoadedObject object = opened->object();
    for (const ElfW(Phdr) & segment : object.segments) {
      if (segment.p_type != PT_LOAD) continue;
      const auto* const begin = reinterpret_cast<const char*>(object.id.base + segment.p_vaddr);
      expect_owner(begin, object);
      expect_owner(begin + segment.p_memsz - 1, object);
    }
  }
  int local = 0;
  EXPECT_EQ(owners.owner_of(&local), nullptr);
  EXPECT_EQ(owners.owner_of(nullptr), nullptr);
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the last address that there is
  EXPECT_EQ(owners.owner_of(reinterpret_cast<void*>(~std::uintptr_t{0})), nullptr);
  EXPECT_EQ(slots::AddressOwners({}).owner_of(&local), nullptr);
}

TEST(ObjectSlots, TheProgramHasAPath) {
  const auto objects = slots::list_objects().objects;
  ASSERT_FALSE(objects.empty());
  EXPECT_EQ(objects.front().id.name, "");
  EXPECT_EQ(objects.front().id.file(), std::filesystem::read_symlink("/proc/self/exe").string());
  EXPECT_TRUE(HeldObject(objects.front().id));
}

}  // namespace object_slots_test
}  // namespace tessera::slots_test
