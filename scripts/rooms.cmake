# A room is a folder that is one stage or one idea, and one static library: room_FOLDER, with _ for /.
#
#   vs_room(FOLDER [SOURCES file...] [TARGET name] [USES folder...])
#
# A room includes its own files by their names and those of the rooms in USES, which also have what its headers include, by folder and name,
# "core/log.h"; anything else is not found: its one include path is build/*/rooms/FOLDER, which has links to a room's headers alone.  Who
# links a room gets those that it uses.  Without SOURCES all of the folder is compiled; a folder without sources is its headers.
#
# scripts/rooms.py holds USES against what is included, and draws docs/rooms.svg.
set(VS_ROOMS ${CMAKE_BINARY_DIR}/rooms)
file(REMOVE_RECURSE ${VS_ROOMS}) # a header that is gone shall not be found

# vs_room_path(VARIABLE FOLDER): the include path under which FOLDER's headers are found
function(vs_room_path variable folder)
  string(REPLACE "/" "_" name ${folder})
  set(${variable} ${VS_ROOMS}/${name} PARENT_SCOPE)
endfunction()

function(vs_room folder)
  cmake_parse_arguments(ROOM "" "TARGET" "SOURCES;USES" ${ARGN})
  set(here ${CMAKE_CURRENT_SOURCE_DIR}/${folder})
  vs_room_path(path ${folder})
  file(MAKE_DIRECTORY ${path}/${folder})
  file(GLOB headers CONFIGURE_DEPENDS RELATIVE ${here} ${here}/*.h ${here}/*.def)
  foreach(header ${headers})
    file(CREATE_LINK ${here}/${header} ${path}/${folder}/${header} SYMBOLIC)
  endforeach()

  string(REPLACE "/" "_" name room_${folder})
  if(ROOM_TARGET)
    set(name ${ROOM_TARGET})
  endif()
  if(NOT ROOM_SOURCES)
    file(GLOB ROOM_SOURCES CONFIGURE_DEPENDS ${here}/*.c ${here}/*.S)
  endif()
  if(NOT ROOM_SOURCES)
    add_library(${name} INTERFACE)
    return()
  endif()
  add_library(${name} STATIC ${ROOM_SOURCES})
  target_compile_options(${name} PRIVATE -fvisibility=hidden)
  if(VRAMSCOPE_OBJECTS AND folder MATCHES "^(preload|run|fit)$") # which know whether there is an arena
    set_target_properties(${name} PROPERTIES C_COMPILER_LAUNCHER "")
  endif()
  foreach(used ${ROOM_USES})
    vs_room_path(path ${used})
    string(REPLACE "/" "_" library room_${used})
    target_include_directories(${name} PRIVATE ${path})
    if(used STREQUAL core) # whose headers include it
      vs_room_path(path core/arch)
      target_include_directories(${name} PRIVATE ${path})
    endif()
    if(NOT used STREQUAL folder) # a room is its own where headers of two rooms include each other
      target_link_libraries(${name} INTERFACE ${library})
    endif()
  endforeach()
endfunction()
