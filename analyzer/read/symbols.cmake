# What symbols.c and elf_names.c need: elfutils and libstdc++'s demangler, all static, so that the command runs where neither is
# installed.  Include, then link with ${VS_SYMBOLS_LIBRARIES} and compile with the definitions ${VS_SYMBOLS_DEFINITIONS}.
set(VS_SYMBOLS_LIBRARIES libdw.a libelf.a libz.a liblzma.a libbz2.a)
if(VRAMSCOPE_SYSTEM_ELFUTILS)
  set(VS_SYMBOLS_LIBRARIES dw elf)
endif()
set(VS_SYMBOLS_DEFINITIONS VS_HAVE_SYMBOLS)
execute_process(COMMAND ${CMAKE_C_COMPILER} -print-file-name=libstdc++.a OUTPUT_VARIABLE VS_LIBSTDCXX OUTPUT_STRIP_TRAILING_WHITESPACE)
if(IS_ABSOLUTE "${VS_LIBSTDCXX}" AND EXISTS "${VS_LIBSTDCXX}")
  list(APPEND VS_SYMBOLS_LIBRARIES ${VS_LIBSTDCXX} -static-libgcc m)
  list(APPEND VS_SYMBOLS_DEFINITIONS VS_HAVE_DEMANGLE)
else()
  message(STATUS "libstdc++.a not found: C++ names stay mangled in reports")
endif()
