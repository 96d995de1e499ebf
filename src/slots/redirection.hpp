// Points the call slots of loaded objects at the functions of our libraries, and back.
//
// A preload must come before the program. This works in a process whose modules have bound their BLAS long ago, also
// where each has a private one. Invariants:
//   - A slot is written only if it has a value, its symbol's name is one of ours, and the object does not define that
//     name itself. The inner calls of a BLAS stay inside it, and a weak symbol that is missing stays so.
//   - A name that does not tell its integers' width is taken only from a BLAS with 32-bit integers.
//   - Each written slot has a record of its former value. It goes back only if the slot still has ours, and the object
//     is the same.
//   - Our libraries are never closed, so that a thread may be in one of their functions, or on its way, at any time.
// Pointers that a program has got from dlsym, or copied, are no slots and stay as they are. So does a call that the
// loader binds lazily in the same moment; the next apply() finds it.
//
// Programs import hundreds of modules, and each import calls apply(). So it first compares the loader's counts and the
// values of the slots with those that it has left. It opens only new objects, and those with slots that are not ours.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/mutex.hpp"
#include "slots/object_slots.hpp"
#include "slots/slot_writer.hpp"

namespace tessera::slots {

/// Thread-safe. No function may be called by a library's constructor: that runs under the loader's lock, which these
/// take under theirs. A child that is forked meanwhile would inherit both locked.
class Redirection {
 public:
  /// Opens the libraries. All functions that they export are ours, except those whose names begin with `tessera_`; the
  /// first library that has a name provides it.
  /// @param libraries   names of files, as dlopen takes them; objects called libtessera* are left alone as these are
  /// @param leave_alone objects are left alone if their path contains one of these texts
  /// @throws NotAvailable if a library cannot be opened
  explicit Redirection(const std::vector<std::string>& libraries, std::vector<std::string> leave_alone = {});
  /// As undo().
  ~Redirection();
  Redirection(const Redirection&) = delete;
  Redirection& operator=(const Redirection&) = delete;

  /// Redirects the slots of all objects that are loaded by now; to be called again when more are. Objects that are
  /// known cost next to nothing, and so does a call without new objects.
  /// @return the number of slots that this call has written
  /// @throws std::bad_alloc; then some slots may be written, and have their records
  int apply() TESSERA_EXCLUDES(mutex_);
  /// Puts the former values back. @return the number of slots that this call has written
  int undo() TESSERA_EXCLUDES(mutex_);
  /// The result of the calls so far, as JSON:
  ///   {"redirected":[{"object":"/path","symbols":["dgemm_"]}],    slots that have our functions now
  ///    "defines":[{"object":"/path","symbols":["dgemm_"]}],       objects with functions of our names
  ///    "lost":[{"object":"/path","reason":"text"}]}               slots that the last call could not write
  std::string report() const TESSERA_EXCLUDES(mutex_);

 private:
  struct Function {
    void* address = nullptr;
    bool is_plain = false;  ///< the name does not tell the integers' width
  };
  /// A slot of one of our names.
  struct Candidate {
    Slot slot;
    const std::string* name = nullptr;  ///< in functions_
    Function ours;
    void* left = nullptr;  ///< its value after the last look at it
  };
  struct KnownObject {
    std::vector<Candidate> candidates;
    std::vector<std::string> defines;
    bool is_all_ours = false;  ///< no slot needs a closer look, as the last compare_slots() has found
  };
  struct Record {
    const std::string* name = nullptr;  ///< in functions_
    void* ours = nullptr;
    void* former = nullptr;
  };
  /// Looks names up without a copy.
  struct NameHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view name) const noexcept { return std::hash<std::string_view>()(name); }
  };
  /// An object with functions that slots call at present.
  struct Definer {
    explicit Definer(const ObjectId& id) : object(id) {}
    HeldObject object;
    std::optional<int> integer_bits;  ///< as integer_bits_by() says; nothing: not asked yet
  };
  /// Those of one apply(), each held once.
  class Definers {
   public:
    /// Lists the objects. @param objects outlive the last at()
    void search(const std::vector<LoadedObject>& objects) { owners_.emplace(objects); }
    /// nullptr: no object, or it cannot be held.
    Definer* at(void* address);

   private:
    Definer* held(const ObjectId& object);
    std::optional<AddressOwners> owners_;
    std::map<std::uintptr_t, Definer> found_;  ///< by their dynamic sections
  };

  void open_library(const std::string& library);
  bool is_left_alone(const ObjectId& object) const;
  KnownObject read_object(const LoadedObject& object) const;
  static bool is_to_redirect(const Candidate& candidate, void* present, const HeldObject& held, Definers& definers);
  bool has_anything_changed() TESSERA_REQUIRES(mutex_);
  int redirect(const ObjectId& object, const HeldObject& held, std::vector<Candidate>& candidates, Definers& definers)
      TESSERA_REQUIRES(mutex_);

  /// One for the process, since two writers must not work on a page at the same time.
  static inline Mutex mutex_;

  std::unordered_map<std::string, Function, NameHash, std::equal_to<>> functions_;  ///< not changed after construction
  std::set<std::uintptr_t> own_objects_;  ///< dynamic sections of our libraries
  std::vector<std::string> leave_alone_;

  std::map<ObjectId, KnownObject> known_ TESSERA_GUARDED_BY(mutex_);  ///< objects that have been read
  unsigned long long closed_ TESSERA_GUARDED_BY(mutex_) = 0;          ///< known_ is right while no more are closed
  unsigned long long loaded_ TESSERA_GUARDED_BY(mutex_) = 0;          ///< known_ is complete while no more are loaded
  std::map<ObjectId, std::map<void**, Record>> records_ TESSERA_GUARDED_BY(mutex_);
  std::map<std::string, std::string> lost_ TESSERA_GUARDED_BY(mutex_);  ///< file -> reason
};

}  // namespace tessera::slots
