#include "slots/redirection.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/error.hpp"
#include "core/integer_width.hpp"
#include "core/loaded_objects.hpp"
#include "slots/json_text.hpp"

namespace tessera::slots {
namespace {

std::uintptr_t dynamic_section(const link_map* object) { return reinterpret_cast<std::uintptr_t>(object->l_ld); }

/// Whether a name leaves open how wide the integers are: dgemm_, cblas_dgemm. Those of SciPy's 32-bit OpenBLAS say it by
/// their prefix.
bool is_plain(std::string_view name) {
  return name.find("64") == std::string_view::npos && !name.starts_with("scipy_");
}

/// Where the loader finds a name for an object that has it bound lazily: in the program and its libraries, then in the
/// object's own. @param held the object
void* found_by_loader(const HeldObject& held, const char* name) {
  void* found = nullptr;
  if (void* const program = dlopen(nullptr, RTLD_LAZY | RTLD_NOLOAD); program != nullptr) {
    found = dlsym(program, name);
    dlclose(program);
  }
  return found != nullptr ? found : dlsym(held.handle(), name);
}

/// @param groups objects and their texts, which are sorted
std::string json_list(const std::map<std::string, std::set<std::string>>& groups) {
  std::string text = "[";
  for (const auto& [file, names] : groups) {
    if (text.size() > 1) text += ',';
    text += "{\"object\":" + json_string(file) + ",\"symbols\":[";
    for (const std::string& name : names) {
      if (name != *names.begin()) text += ',';
      text += json_string(name);
    }
    text += "]}";
  }
  return text + ']';
}

}  // namespace

Redirection::Redirection(const std::vector<std::string>& libraries, std::vector<std::string> leave_alone)
    : leave_alone_(std::move(leave_alone)) {
  for (const std::string& library : libraries) open_library(library);
}

Redirection::~Redirection() {
  try {
    undo();
  } catch (...) {
    // Without memory the slots stay ours. The functions behind them stay, too.
  }
}

void Redirection::open_library(const std::string& library) {
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const reason = dlerror();
    throw NotAvailable(reason != nullptr ? reason : library + ": cannot be opened");
  }
  const auto* const object = static_cast<const link_map*>(handle);
  own_objects_.insert(dynamic_section(object));
  const LoadedObjects now = list_objects();
  const auto found = std::find_if(now.objects.begin(), now.objects.end(), [&](const LoadedObject& candidate) {
    return candidate.id.dynamic == dynamic_section(object);
  });
  if (found == now.objects.end()) throw NotAvailable(library + ": its symbols cannot be read");
  const AddressOwners owners(now.objects);
  ObjectTables(*found).for_each_function([&](const char* name) {
    if (std::string_view(name).starts_with("tessera_")) return;
    // A version that is not the default one is not found, or is a function of another library.
    if (void* const address = dlsym(handle, name); address != nullptr && owners.owner_of(address) == &found->id)
      functions_.emplace(name, Function{address, is_plain(name)});
  });
}

bool Redirection::is_left_alone(const ObjectId& object) const {
  if (own_objects_.count(object.dynamic) != 0) return true;
  const std::string file = object.file();
  if (std::string_view(file).substr(file.rfind('/') + 1).starts_with("libtessera")) return true;
  return std::any_of(leave_alone_.begin(), leave_alone_.end(),
                     [&](const std::string& text) { return file.find(text) != std::string::npos; });
}

/// @pre the object is held
Redirection::KnownObject Redirection::read_object(const LoadedObject& object) const {
  const ObjectTables tables(object);
  std::set<std::string_view> defined;
  tables.for_each_function([&](const char* name) {
    if (const auto found = functions_.find(std::string_view(name)); found != functions_.end())
      defined.insert(found->first);
  });
  KnownObject known;
  known.defines.assign(defined.begin(), defined.end());
  tables.for_each_slot([&](const Slot& slot) {
    const auto found = functions_.find(std::string_view(slot.name));
    if (found != functions_.end() && defined.count(slot.name) == 0)
      known.candidates.push_back({slot, &found->first, found->second, nullptr});
  });
  return known;
}

// dlsym crashes with an object that came as a dependency and has never been opened: it has no list of libraries yet. So
// this opens it.
Redirection::Definer* Redirection::Definers::held(const ObjectId& object) {
  Definer& definer = found_.try_emplace(object.dynamic, object).first->second;
  return definer.object ? &definer : nullptr;
}

Redirection::Definer* Redirection::Definers::at(void* address) {
  if (address == nullptr) return nullptr;
  if (const ObjectId* const owner = owners_->owner_of(address); owner != nullptr) {
    if (Definer* const definer = held(*owner); definer != nullptr) return definer;
  }
  // The slot may have been bound to an object that has been loaded since.
  const link_map* const object = object_of(address);
  return object != nullptr ? held({object->l_name, object->l_addr, dynamic_section(object)}) : nullptr;
}

// A pointer in data may have been assigned since. In other slots, the object's own code is there to bind them lazily,
// since the object does not define the name.
bool Redirection::is_to_redirect(const Candidate& candidate, void* present, const HeldObject& held,
                                 Definers& definers) {
  if (present == nullptr || present == candidate.ours.address) return false;
  if (!candidate.slot.is_data && !candidate.ours.is_plain) return true;
  Definer* definer = definers.at(present);
  if (candidate.slot.is_data && (definer == nullptr || dlsym(definer->object.handle(), candidate.slot.name) != present))
    return false;
  if (!candidate.ours.is_plain) return true;
  if (definer != nullptr && definer->object.handle() == held.handle())
    definer = definers.at(found_by_loader(held, candidate.slot.name));
  if (definer == nullptr) return true;
  if (!definer->integer_bits) definer->integer_bits = integer_bits_by(dlsym(definer->object.handle(), "isamax_"));
  return definer->integer_bits != 64;
}

/// Also finds out for each known object whether all of its slots are ours. A slot changes without new objects if a call
/// that had begun before us has bound it, or if the program has assigned it.
bool Redirection::has_anything_changed() {
  bool has_changed = !lost_.empty();
  look_at_loads([&](const LoadCounts& now) TESSERA_REQUIRES(mutex_) {
    has_changed |= now.loaded != loaded_ || now.closed != closed_;
    // One of the objects may be gone.
    if (now.closed != closed_) return;
    for (auto& [object, known] : known_) {
      known.is_all_ours = true;
      for (const Candidate& candidate : known.candidates) {
        void* const present = value_of(candidate.slot.address);
        has_changed |= present != candidate.left;
        known.is_all_ours &= present == nullptr || present == candidate.ours.address;
      }
    }
  });
  return has_changed;
}

int Redirection::apply() {
  // These outlive the lock: to let go of an object may run its destructors.
  std::vector<HeldObject> held;
  Definers definers;
  const LockGuard lock(mutex_);
  if (!has_anything_changed()) return 0;
  lost_.clear();
  const LoadedObjects now = list_objects();
  definers.search(now.objects);
  if (now.counts.closed != closed_) {
    // A new object may lie where one of these was.
    known_.clear();
    closed_ = now.counts.closed;
    std::set<ObjectId> loaded;
    for (const LoadedObject& object : now.objects) loaded.insert(object.id);
    std::erase_if(records_, [&](const auto& records) { return loaded.count(records.first) == 0; });
  }
  int written = 0;
  bool is_complete = true;
  for (const LoadedObject& object : now.objects) {
    auto known = known_.find(object.id);
    if (known != known_.end() && known->second.is_all_ours) continue;
    if (known == known_.end() && is_left_alone(object.id)) {
      known_.try_emplace(object.id);
      continue;
    }
    held.emplace_back(object.id);
    if (!held.back()) {
      is_complete = false;
      continue;
    }
    if (known == known_.end()) known = known_.emplace(object.id, read_object(object)).first;
    written += redirect(object.id, held.back(), known->second.candidates, definers);
  }
  if (is_complete) loaded_ = now.counts.loaded;
  return written;
}

int Redirection::redirect(const ObjectId& object, const HeldObject& held, std::vector<Candidate>& candidates,
                          Definers& definers) {
  SlotWriter writer;
  int written = 0;
  for (Candidate& candidate : candidates) {
    // The loader may bind the slot meanwhile. Its value is then another one, which is to be recorded.
    for (;;) {
      void* const present = candidate.left = value_of(candidate.slot.address);
      if (!is_to_redirect(candidate, present, held, definers)) break;
      auto& records = records_[object];
      const auto place = records.try_emplace(candidate.slot.address).first;
      const Record former = std::exchange(place->second, Record{candidate.name, candidate.ours.address, present});
      const SlotWriter::Outcome outcome = writer.replace(candidate.slot.address, present, candidate.ours.address);
      if (outcome == SlotWriter::Outcome::written) {
        candidate.left = candidate.ours.address;
        ++written;
        break;
      }
      if (former.name != nullptr)
        place->second = former;
      else
        records.erase(place);
      if (outcome == SlotWriter::Outcome::refused) {
        lost_.insert_or_assign(object.file(), writer.why());
        break;
      }
    }
  }
  return written;
}

int Redirection::undo() {
  std::vector<HeldObject> held;  // outlives the lock, as in apply()
  const LockGuard lock(mutex_);
  lost_.clear();
  int written = 0;
  for (auto object = records_.begin(); object != records_.end();) {
    auto& [id, records] = *object;
    held.emplace_back(id);
    // An object that has been closed has no slots.
    if (!held.back()) records.clear();
    SlotWriter writer;
    for (auto entry = records.begin(); entry != records.end();) {
      const auto& [slot, record] = *entry;
      const SlotWriter::Outcome outcome = writer.replace(slot, record.ours, record.former);
      if (outcome == SlotWriter::Outcome::written) ++written;
      if (outcome == SlotWriter::Outcome::refused) lost_.insert_or_assign(id.file(), writer.why());
      entry = outcome == SlotWriter::Outcome::refused ? std::next(entry) : records.erase(entry);
    }
    object = records.empty() ? records_.erase(object) : std::next(object);
  }
  return written;
}

std::string Redirection::report() const {
  std::map<std::string, std::set<std::string>> redirected, defines;
  std::string lost = "[";
  {
    const LockGuard lock(mutex_);
    for (const auto& [object, records] : records_) {
      for (const auto& [slot, record] : records) redirected[object.file()].insert(*record.name);
    }
    for (const auto& [object, known] : known_) {
      if (!known.defines.empty()) defines[object.file()].insert(known.defines.begin(), known.defines.end());
    }
    for (const auto& [file, reason] : lost_) {
      if (lost.size() > 1) lost += ',';
      lost += "{\"object\":" + json_string(file) + ",\"reason\":" + json_string(reason) + '}';
    }
  }
  return "{\"redirected\":" + json_list(redirected) + ",\"defines\":" + json_list(defines) + ",\"lost\":" + lost + "]}";
}

}  // namespace tessera::slots
