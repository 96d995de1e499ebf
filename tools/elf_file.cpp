#include "elf_file.hpp"

#include <fcntl.h>
#include <gelf.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "blas_names.hpp"

namespace tessera::tools {
namespace {

/// An open ELF file; everything read from it points into it.
class ElfFile {
 public:
  explicit ElfFile(const std::string& path) : path_(path) {
    if (elf_version(EV_CURRENT) == EV_NONE) fail("libelf is too old");
    descriptor_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor_ < 0) fail(std::strerror(errno));
    elf_ = elf_begin(descriptor_, ELF_C_READ_MMAP, nullptr);
    if (elf_ == nullptr || elf_kind(elf_) != ELF_K_ELF || gelf_getehdr(elf_, &header_) == nullptr) {
      close_all();
      fail("no ELF file");
    }
  }
  ~ElfFile() { close_all(); }
  ElfFile(const ElfFile&) = delete;
  ElfFile& operator=(const ElfFile&) = delete;

  [[noreturn]] void fail(const std::string& why) const { throw NotReadable(path_ + ": " + why); }

  const GElf_Ehdr& header() const { return header_; }

  template <class Function>
  void for_each_segment(const Function& function) const {
    std::size_t count = 0;
    if (elf_getphdrnum(elf_, &count) != 0) return;
    for (std::size_t i = 0; i < count; ++i) {
      GElf_Phdr segment;
      if (gelf_getphdr(elf_, static_cast<int>(i), &segment) != nullptr) function(segment);
    }
  }

  template <class Function>
  void for_each_section(const Function& function) const {
    for (Elf_Scn* section = elf_nextscn(elf_, nullptr); section != nullptr; section = elf_nextscn(elf_, section)) {
      GElf_Shdr header;
      if (gelf_getshdr(section, &header) != nullptr) function(section, header);
    }
  }

  std::string text(std::size_t table, std::size_t offset) const {
    const char* found = elf_strptr(elf_, table, offset);
    return found != nullptr ? found : "";
  }

  /// Bytes of the file itself.
  std::string_view bytes(std::size_t offset, std::size_t size) const {
    std::size_t whole = 0;
    const char* begin = elf_rawfile(elf_, &whole);
    if (begin == nullptr || offset > whole || size > whole - offset) return {};
    return {begin + offset, size};
  }

  Elf_Scn* section(std::size_t index) const { return elf_getscn(elf_, index); }

 private:
  void close_all() {
    if (elf_ != nullptr) elf_end(elf_);
    if (descriptor_ >= 0) close(descriptor_);
    elf_ = nullptr;
    descriptor_ = -1;
  }

  std::string path_;
  int descriptor_ = -1;
  Elf* elf_ = nullptr;
  GElf_Ehdr header_{};
};

std::optional<std::string> interpreter_in(const ElfFile& file) {
  std::optional<std::string> interpreter;
  file.for_each_segment([&](const GElf_Phdr& segment) {
    if (segment.p_type != PT_INTERP) return;
    const std::string_view text = file.bytes(segment.p_offset, segment.p_filesz);
    interpreter = std::string(text.substr(0, text.find('\0')));
  });
  return interpreter;
}

/// C++ names: most names of most libraries, and never one of BLAS.
bool is_of_cxx(const std::string& symbol) { return symbol.rfind("_Z", 0) == 0; }

std::string without_version(const std::string& symbol) { return symbol.substr(0, symbol.find('@')); }

void read_dynamic(const ElfFile& file, Elf_Scn* section, const GElf_Shdr& header, ProgramObject& to, bool& is_pie) {
  Elf_Data* data = elf_getdata(section, nullptr);
  if (data == nullptr || header.sh_entsize == 0) return;
  for (std::size_t i = 0; i < header.sh_size / header.sh_entsize; ++i) {
    GElf_Dyn entry;
    if (gelf_getdyn(data, static_cast<int>(i), &entry) == nullptr) break;
    if (entry.d_tag == DT_NULL) break;
    if (entry.d_tag == DT_NEEDED || entry.d_tag == DT_RPATH || entry.d_tag == DT_RUNPATH) {
      to.loads += std::to_string(entry.d_tag) + file.text(header.sh_link, entry.d_un.d_val) + '\n';
    }
    if (entry.d_tag == DT_NEEDED) to.needed.insert(file.text(header.sh_link, entry.d_un.d_val));
    if (entry.d_tag == DT_SONAME) to.soname = file.text(header.sh_link, entry.d_un.d_val);
    if (entry.d_tag == DT_SYMBOLIC) to.symbolic = true;
    if (entry.d_tag == DT_FLAGS) to.symbolic = to.symbolic || (entry.d_un.d_val & DF_SYMBOLIC) != 0;
    if (entry.d_tag == DT_FLAGS_1) is_pie = (entry.d_un.d_val & DF_1_PIE) != 0;
  }
}

bool can_be_function(const GElf_Sym& symbol) {
  const auto type = GELF_ST_TYPE(symbol.st_info);
  return type == STT_FUNC || type == STT_NOTYPE || type == STT_GNU_IFUNC || type == STT_OBJECT;
}

void read_symbols(const ElfFile& file, Elf_Scn* section, const GElf_Shdr& header, ProgramObject& to) {
  Elf_Data* data = elf_getdata(section, nullptr);
  if (data == nullptr || header.sh_entsize == 0) return;
  for (std::size_t i = 1; i < header.sh_size / header.sh_entsize; ++i) {
    GElf_Sym symbol;
    if (gelf_getsym(data, static_cast<int>(i), &symbol) == nullptr) break;
    if (!can_be_function(symbol)) continue;
    const std::string name = without_version(file.text(header.sh_link, symbol.st_name));
    if (name.empty() || is_of_cxx(name)) continue;
    const bool defined = symbol.st_shndx != SHN_UNDEF;
    if (header.sh_type == SHT_SYMTAB) {
      if (defined && parse_blas_name(name)) to.inside.insert(name);
    } else {
      (defined ? to.defines : to.references).insert(name);
    }
  }
}

/// Names that are bound when the object is loaded, those that it defines itself included.
void read_relocations(const ElfFile& file, Elf_Scn* section, const GElf_Shdr& header, ProgramObject& to) {
  Elf_Scn* symbols = file.section(header.sh_link);
  GElf_Shdr symbols_header;
  if (symbols == nullptr || gelf_getshdr(symbols, &symbols_header) == nullptr) return;
  if (symbols_header.sh_type != SHT_DYNSYM) return;
  Elf_Data* data = elf_getdata(section, nullptr);
  Elf_Data* symbol_data = elf_getdata(symbols, nullptr);
  if (data == nullptr || symbol_data == nullptr || header.sh_entsize == 0) return;
  for (std::size_t i = 0; i < header.sh_size / header.sh_entsize; ++i) {
    GElf_Xword info = 0;
    if (header.sh_type == SHT_RELA) {
      GElf_Rela relocation;
      if (gelf_getrela(data, static_cast<int>(i), &relocation) == nullptr) break;
      info = relocation.r_info;
    } else {
      GElf_Rel relocation;
      if (gelf_getrel(data, static_cast<int>(i), &relocation) == nullptr) break;
      info = relocation.r_info;
    }
    GElf_Sym symbol;
    const auto index = GELF_R_SYM(info);
    if (index == 0 || gelf_getsym(symbol_data, static_cast<int>(index), &symbol) == nullptr) continue;
    const std::string name = without_version(file.text(symbols_header.sh_link, symbol.st_name));
    if (!name.empty() && !is_of_cxx(name)) to.references.insert(name);
  }
}

}  // namespace

ProgramObject read_elf(const std::string& path, bool look_for_text) {
  const ElfFile file(path);
  const ElfFile self("/proc/self/exe");
  if (file.header().e_machine != self.header().e_machine ||
      file.header().e_ident[EI_CLASS] != self.header().e_ident[EI_CLASS]) {
    file.fail("built for another kind of machine");
  }
  if (file.header().e_type != ET_EXEC && file.header().e_type != ET_DYN) {
    file.fail("neither a program nor a shared library");
  }
  ProgramObject object;
  object.path = path;
  object.stripped = true;
  bool is_pie = false;
  bool has_dynamic = false;
  file.for_each_section([&](Elf_Scn* section, const GElf_Shdr& header) {
    switch (header.sh_type) {
      case SHT_DYNAMIC:
        has_dynamic = true;
        read_dynamic(file, section, header, object, is_pie);
        break;
      case SHT_SYMTAB:
        object.stripped = false;
        [[fallthrough]];
      case SHT_DYNSYM:
        read_symbols(file, section, header, object);
        break;
      case SHT_RELA:
      case SHT_REL:
        read_relocations(file, section, header, object);
        break;
      case SHT_PROGBITS:
        // The names that routines pass to xerbla, padded to six characters.
        if (look_for_text && (header.sh_flags & SHF_ALLOC) != 0 && (header.sh_flags & SHF_EXECINSTR) == 0) {
          const std::string_view bytes = file.bytes(header.sh_offset, header.sh_size);
          object.names_blas_errors = object.names_blas_errors || (bytes.find("DGEMM ") != std::string_view::npos &&
                                                                  bytes.find("DTRSM ") != std::string_view::npos);
        }
        break;
      default:
        break;
    }
  });
  const bool has_interpreter = interpreter_in(file).has_value();
  object.executable = file.header().e_type == ET_EXEC || has_interpreter || is_pie;
  object.is_static = object.executable && (!has_dynamic || !has_interpreter);
  for (const std::string& name : object.defines) object.inside.erase(name);
  return object;
}

std::optional<std::string> interpreter_of(const std::string& path) { return interpreter_in(ElfFile(path)); }

}  // namespace tessera::tools
