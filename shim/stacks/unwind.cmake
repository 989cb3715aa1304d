# The private unwinder: copies of Debian's libunwind and liblzma under names of our own, beside the shim in lib/vramscope/.
#
# libunwind.so.8 exports _Unwind_*: were a host to find our copy by its soname, its C++ exceptions would run through it, and
# a libunwind that the host brings must stay the host's.  So soname and NEEDED are renamed and nothing but shim/stacks/unwinder.c
# opens the file.  One patchelf call an edit: several in one call damage the string table (patchelf 0.14).
find_program(PATCHELF patchelf)
set(VRAMSCOPE_LIBUNWIND /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/libunwind.so.8 CACHE FILEPATH "libunwind (>= 1.6) that the private copy is made from")
set(VRAMSCOPE_LIBLZMA /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/liblzma.so.5 CACHE FILEPATH "liblzma that libunwind needs")

if(NOT PATCHELF OR NOT EXISTS ${VRAMSCOPE_LIBUNWIND} OR NOT EXISTS ${VRAMSCOPE_LIBLZMA})
  message(WARNING "patchelf, libunwind8 or liblzma5 is missing: this build records no native call stacks")
  add_custom_target(private_unwind)
  return()
endif()

set(PRIVATE_DIR ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/vramscope)
set(UNWIND ${PRIVATE_DIR}/libvramscope-unwind.so)
set(LZMA ${PRIVATE_DIR}/libvramscope-lzma.so)
add_custom_command(OUTPUT ${UNWIND} ${LZMA}
  COMMAND ${CMAKE_COMMAND} -E make_directory ${PRIVATE_DIR}
  COMMAND install -m 644 ${VRAMSCOPE_LIBLZMA} ${LZMA}
  COMMAND ${PATCHELF} --set-soname libvramscope-lzma.so ${LZMA}
  COMMAND install -m 644 ${VRAMSCOPE_LIBUNWIND} ${UNWIND}
  COMMAND ${PATCHELF} --replace-needed liblzma.so.5 libvramscope-lzma.so ${UNWIND}
  COMMAND ${PATCHELF} --set-soname libvramscope-unwind.so ${UNWIND}
  COMMAND ${PATCHELF} --set-rpath "$ORIGIN" ${UNWIND}
  DEPENDS ${VRAMSCOPE_LIBUNWIND} ${VRAMSCOPE_LIBLZMA} VERBATIM
  COMMENT "Making the private copy of libunwind")
add_custom_target(private_unwind ALL DEPENDS ${UNWIND} ${LZMA})
install(FILES ${UNWIND} ${LZMA} DESTINATION lib/vramscope)
