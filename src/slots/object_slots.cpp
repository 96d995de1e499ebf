#include "slots/object_slots.hpp"

#include <dlfcn.h>
#include <elf.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>

namespace tessera::slots {
namespace {

static_assert(sizeof(ElfW(Addr)) == sizeof(std::uint64_t), "relocations are read as those of 64-bit machines");

#if defined(__x86_64__)
constexpr std::uint32_t plt_slot = R_X86_64_JUMP_SLOT, table_slot = R_X86_64_GLOB_DAT, data_slot = R_X86_64_64;
#elif defined(__aarch64__)
constexpr std::uint32_t plt_slot = R_AARCH64_JUMP_SLOT, table_slot = R_AARCH64_GLOB_DAT, data_slot = R_AARCH64_ABS64;
#else
#error "the relocations of this machine are not known"
#endif

std::uintptr_t number_of(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

LoadedObject description_of(const dl_phdr_info& info) {
  LoadedObject object;
  object.id.name = info.dlpi_name != nullptr ? info.dlpi_name : "";
  object.id.base = info.dlpi_addr;
  object.segments.assign(info.dlpi_phdr, info.dlpi_phdr + info.dlpi_phnum);
  for (const ElfW(Phdr) & segment : object.segments) {
    if (segment.p_type == PT_DYNAMIC) object.id.dynamic = info.dlpi_addr + segment.p_vaddr;
  }
  return object;
}

}  // namespace

std::string ObjectId::file() const {
  if (!name.empty()) return name;
  std::error_code error;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", error).string();
  return error ? "the program" : program;
}

LoadedObjects list_objects() {
  struct Walk {
    LoadedObjects found;
    std::exception_ptr error;
  } walk;
  // Only copies: the walk holds a lock of the loader, which other functions of the loader take after another one.
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* to) {
        auto& [found, error] = *static_cast<Walk*>(to);
        try {
          found.counts = {info->dlpi_adds, info->dlpi_subs};
          found.objects.push_back(description_of(*info));
        } catch (...) {
          error = std::current_exception();
          return 1;
        }
        return 0;
      },
      &walk);
  if (walk.error != nullptr) std::rethrow_exception(walk.error);
  return std::move(walk.found);
}

// glibc unmaps objects under the lock of this walk: unwinders read them in the same way.
void look_at_loads(const std::function<void(const LoadCounts&)>& look) {
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* to) {
        (*static_cast<const std::function<void(const LoadCounts&)>*>(to))({info->dlpi_adds, info->dlpi_subs});
        return 1;  // every object reports the same counts
      },
      const_cast<std::function<void(const LoadCounts&)>*>(&look));
}

AddressOwners::AddressOwners(const std::vector<LoadedObject>& objects) {
  for (const LoadedObject& object : objects) {
    for (const ElfW(Phdr) & segment : object.segments) {
      const std::uintptr_t begin = object.id.base + segment.p_vaddr;
      if (segment.p_type == PT_LOAD) segments_.push_back({begin, begin + segment.p_memsz, &object.id});
    }
  }
  std::sort(segments_.begin(), segments_.end(),
            [](const Segment& left, const Segment& right) { return left.begin < right.begin; });
}

const ObjectId* AddressOwners::owner_of(const void* address) const {
  const auto above =
      std::upper_bound(segments_.begin(), segments_.end(), number_of(address),
                       [](std::uintptr_t searched, const Segment& segment) { return searched < segment.begin; });
  if (above == segments_.begin()) return nullptr;
  const Segment& segment = *std::prev(above);
  return number_of(address) < segment.end ? segment.owner : nullptr;
}

HeldObject::HeldObject(const ObjectId& object) noexcept
    : handle_(dlopen(object.name.empty() ? nullptr : object.name.c_str(), RTLD_LAZY | RTLD_NOLOAD)) {
  if (handle_ == nullptr) return;
  // Meanwhile another object may have taken the name.
  const auto* const map = static_cast<const link_map*>(handle_);
  if (map->l_addr == object.base && number_of(map->l_ld) == object.dynamic) return;
  dlclose(handle_);
  handle_ = nullptr;
}

HeldObject::~HeldObject() {
  if (handle_ != nullptr) dlclose(handle_);
}

ObjectTables::ObjectTables(const LoadedObject& object) : base_(object.id.base) {
  for (const ElfW(Phdr) & segment : object.segments) {
    const Range range{base_ + segment.p_vaddr, base_ + segment.p_vaddr + segment.p_memsz};
    if (segment.p_type == PT_LOAD && (segment.p_flags & PF_R) != 0) readable_.push_back(range);
    if (segment.p_type == PT_GNU_RELRO) relro_ = range;
  }
  std::size_t relocation_bytes = 0, plt_bytes = 0, relocation_entry = sizeof(ElfW(Rela));
  ElfW(Sxword) plt_kind = DT_RELA;
  const Room dynamic = room_at(object.id.dynamic);
  for (std::size_t i = 0;; ++i) {
    const auto* const row = entry<ElfW(Dyn)>(dynamic, i);
    if (row == nullptr || row->d_tag == DT_NULL) break;
    switch (row->d_tag) {
      case DT_SYMTAB:
        symbols_ = find_table(row->d_un.d_ptr);
        break;
      case DT_STRTAB:
        strings_ = find_table(row->d_un.d_ptr);
        break;
      case DT_HASH:
        hash_ = find_table(row->d_un.d_ptr);
        break;
      case DT_GNU_HASH:
        gnu_hash_ = find_table(row->d_un.d_ptr);
        break;
      case DT_RELA:
        relocations_ = find_table(row->d_un.d_ptr);
        break;
      case DT_JMPREL:
        plt_relocations_ = find_table(row->d_un.d_ptr);
        break;
      case DT_RELASZ:
        relocation_bytes = row->d_un.d_val;
        break;
      case DT_PLTRELSZ:
        plt_bytes = row->d_un.d_val;
        break;
      case DT_RELAENT:
        relocation_entry = row->d_un.d_val;
        break;
      case DT_PLTREL:
        plt_kind = static_cast<ElfW(Sxword)>(row->d_un.d_val);
        break;
      default:
        break;
    }
  }
  const bool is_known = relocation_entry == sizeof(ElfW(Rela));
  relocations_.bytes = is_known ? std::min(relocations_.bytes, relocation_bytes) : 0;
  plt_relocations_.bytes = is_known && plt_kind == DT_RELA ? std::min(plt_relocations_.bytes, plt_bytes) : 0;
}

ObjectTables::Room ObjectTables::room_at(std::uintptr_t address) const {
  for (const Range& range : readable_) {
    if (address >= range.begin && address < range.end) return {address, range.end - address};
  }
  return {};
}

// glibc adds the base to the pointers of a dynamic section, but not to those of the vdso; musl adds it to none.
ObjectTables::Room ObjectTables::find_table(std::uintptr_t pointer) const {
  const Room as_it_is = room_at(pointer);
  return as_it_is.bytes != 0 ? as_it_is : room_at(base_ + pointer);
}

/// nullptr: it does not lie inside the table.
template <class Entry>
const Entry* ObjectTables::entry(Room table, std::size_t index) const {
  if (index >= table.bytes / sizeof(Entry) || table.begin % alignof(Entry) != 0) return nullptr;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the loader tells numbers
  return reinterpret_cast<const Entry*>(table.begin) + index;
}

const char* ObjectTables::name_of(const ElfW(Sym) & symbol) const {
  return symbol.st_name != 0 ? entry<char>(strings_, symbol.st_name) : nullptr;
}

// Each bucket begins a chain of consecutive symbols, whose last one has an odd hash. So the longest index is the end of
// the chain that begins last. Symbols in front of the first bucket have no hash.
std::size_t ObjectTables::number_by_gnu_hash() const {
  using Word = std::uint32_t;
  const Word* const header = entry<Word>(gnu_hash_, 0);
  if (header == nullptr || entry<Word>(gnu_hash_, 3) == nullptr) return 0;
  const std::size_t buckets = header[0], first = header[1], filter_words = header[2];
  const std::size_t buckets_at = 4 + filter_words * (sizeof(ElfW(Addr)) / sizeof(Word));
  std::size_t last = 0;
  for (std::size_t i = 0; i < buckets; ++i) {
    const Word* const bucket = entry<Word>(gnu_hash_, buckets_at + i);
    if (bucket == nullptr) return 0;
    last = std::max<std::size_t>(last, *bucket);
  }
  if (last < first) return first;
  for (;; ++last) {
    const Word* const hash = entry<Word>(gnu_hash_, buckets_at + buckets + (last - first));
    if (hash == nullptr) return 0;
    if ((*hash & 1) != 0) return last + 1;
  }
}

std::size_t ObjectTables::number_of_symbols() const {
  // The second word of the older table is the number itself.
  const auto* const number = entry<std::uint32_t>(hash_, 1);
  return number != nullptr ? *number : number_by_gnu_hash();
}

void ObjectTables::for_each_function(const std::function<void(const char*)>& visit) const {
  const std::size_t count = number_of_symbols();
  for (std::size_t i = 1; i < count; ++i) {
    const auto* const symbol = entry<ElfW(Sym)>(symbols_, i);
    if (symbol == nullptr) return;
    const auto type = ELF64_ST_TYPE(symbol->st_info), binding = ELF64_ST_BIND(symbol->st_info);
    const auto visibility = ELF64_ST_VISIBILITY(symbol->st_other);
    if (symbol->st_shndx == SHN_UNDEF || (type != STT_FUNC && type != STT_GNU_IFUNC) || binding == STB_LOCAL ||
        (visibility != STV_DEFAULT && visibility != STV_PROTECTED))
      continue;
    if (const char* const name = name_of(*symbol); name != nullptr) visit(name);
  }
}

void ObjectTables::visit_relocations(Room table, const std::function<void(const Slot&)>& visit) const {
  for (std::size_t i = 0;; ++i) {
    const auto* const relocation = entry<ElfW(Rela)>(table, i);
    if (relocation == nullptr) return;
    const auto type = ELF64_R_TYPE(relocation->r_info), index = ELF64_R_SYM(relocation->r_info);
    if (index == 0 || (type != plt_slot && type != table_slot && type != data_slot)) continue;
    // An address beside the symbol is none to call.
    if (type == data_slot && relocation->r_addend != 0) continue;
    // The symbols that an object only uses may not be counted by its hash table.
    const auto* const symbol = entry<ElfW(Sym)>(symbols_, index);
    const char* const name = symbol != nullptr ? name_of(*symbol) : nullptr;
    const std::uintptr_t address = base_ + relocation->r_offset;
    if (name == nullptr || room_at(address).bytes < sizeof(void*)) continue;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the loader tells numbers
    auto** const slot = reinterpret_cast<void**>(address);
    visit({slot, name, type == data_slot, address >= relro_.begin && address < relro_.end});
  }
}

void ObjectTables::for_each_slot(const std::function<void(const Slot&)>& visit) const {
  visit_relocations(relocations_, visit);
  visit_relocations(plt_relocations_, visit);
}

}  // namespace tessera::slots
