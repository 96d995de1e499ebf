// The call slots and the exported functions of one loaded object, read from its dynamic section in memory.
//
// A slot is a pointer that the loader fills with the address of a named symbol. It is an entry of the global offset
// table, or a pointer in data. Nothing here writes. An object may be closed by another thread at any time, so its tables are read
// only while it is held (HeldObject). Tables that do not lie inside the object's segments count as missing.
// Source: System V ABI, chapter 5, and its supplements for x86-64 and AArch64.
#pragma once

#include <link.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace tessera::slots {

/// Tells an object from every other one that is loaded at the same time, and from most that have been closed.
struct ObjectId {
  std::string name;            ///< the loader's name of its file; empty: the program
  std::uintptr_t base = 0;     ///< added by the loader to the addresses in the file
  std::uintptr_t dynamic = 0;  ///< where its dynamic section is; 0: it has none
  bool operator==(const ObjectId&) const = default;
  bool operator<(const ObjectId& other) const {
    return std::tie(name, base, dynamic) < std::tie(other.name, other.base, other.dynamic);
  }

  /// Its path, also if it is the program.
  std::string file() const;
};

struct LoadedObject {
  ObjectId id;
  std::vector<ElfW(Phdr)> segments;
};

/// How many objects the process has loaded and closed so far.
struct LoadCounts {
  unsigned long long loaded = 0, closed = 0;
};

struct LoadedObjects {
  std::vector<LoadedObject> objects;  ///< some may not be relocated yet: hold them first
  LoadCounts counts;
};

/// All objects of the process at one moment. Thread-safe. @throws std::bad_alloc
LoadedObjects list_objects();

/// Calls `look` with the counts of this moment. No object leaves the memory meanwhile, so `look` may read those that it
/// knows to be loaded, without the cost of holding each. Thread-safe.
/// @param look must neither throw nor call the loader, since it runs under one of the loader's locks
void look_at_loads(const std::function<void(const LoadCounts&)>& look);

/// Finds the owners of addresses among listed objects. The loader's dladdr would also search the owner's symbols, which
/// takes longer than all else here.
class AddressOwners {
 public:
  /// @param objects outlive this
  /// @throws std::bad_alloc
  explicit AddressOwners(const std::vector<LoadedObject>& objects);

  /// nullptr: none of the objects.
  const ObjectId* owner_of(const void* address) const;

 private:
  struct Segment {
    std::uintptr_t begin, end;
    const ObjectId* owner;
  };
  std::vector<Segment> segments_;  ///< sorted
};

/// Keeps an object loaded meanwhile. The constructor waits until the loader has relocated the object.
/// @pre the calling thread holds no lock that a library's constructor may take: those run under the loader's lock
class HeldObject {
 public:
  explicit HeldObject(const ObjectId& object) noexcept;
  ~HeldObject();
  HeldObject(HeldObject&& other) noexcept : handle_(other.handle_) { other.handle_ = nullptr; }
  HeldObject(const HeldObject&) = delete;
  HeldObject& operator=(const HeldObject&) = delete;

  /// false: it has been closed, or the loader does not know it by its name.
  explicit operator bool() const { return handle_ != nullptr; }
  /// The loader's handle.
  void* handle() const { return handle_; }

 private:
  void* handle_;
};

struct Slot {
  void** address = nullptr;
  const char* name = nullptr;  ///< of the symbol; valid while the object is loaded
  bool is_data = false;        ///< a pointer of the program, which may have been assigned since
  bool is_relro = false;       ///< inside PT_GNU_RELRO: read-only once the loader has filled it
};

/// The tables of an object. Valid, with all that is read from them, while the object is held.
class ObjectTables {
 public:
  /// @throws std::bad_alloc
  explicit ObjectTables(const LoadedObject& object);

  /// Visits each slot that names a symbol, those of symbols that the object defines included.
  void for_each_slot(const std::function<void(const Slot&)>& visit) const;
  /// Visits the name of each function that other objects can call.
  void for_each_function(const std::function<void(const char*)>& visit) const;

 private:
  /// Memory from an address up to the end of the segment that it lies in.
  struct Room {
    std::uintptr_t begin = 0;
    std::size_t bytes = 0;
  };
  struct Range {
    std::uintptr_t begin = 0, end = 0;
  };

  Room room_at(std::uintptr_t address) const;
  Room find_table(std::uintptr_t pointer) const;
  template <class Entry>
  const Entry* entry(Room table, std::size_t index) const;
  const char* name_of(const ElfW(Sym) & symbol) const;
  std::size_t number_of_symbols() const;
  std::size_t number_by_gnu_hash() const;
  void visit_relocations(Room table, const std::function<void(const Slot&)>& visit) const;

  std::uintptr_t base_;
  std::vector<Range> readable_;  ///< its segments
  Range relro_;
  Room symbols_, strings_, hash_, gnu_hash_;
  Room relocations_, plt_relocations_;  ///< of exactly their size
};

}  // namespace tessera::slots
