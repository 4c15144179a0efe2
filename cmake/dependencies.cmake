# Dependencies: oneDNN, OpenMP, hwloc, xxhash.h, threads; and for optional parts of io and train
# protobuf-c with ONNX's schema, jansson, PCRE2, libpng, libjpeg and Open MPI.

find_package(OpenMP REQUIRED COMPONENTS C)
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(HWLOC REQUIRED IMPORTED_TARGET hwloc)
find_path(XXHASH_INCLUDE xxhash.h REQUIRED)

# oneDNN is found by its header and library, because Debian's CMake package requires OpenCL, which
# nothing here uses.
set(TESSERA_ONEDNN_ROOT "" CACHE PATH "Tree with include/ and lib/ of the oneDNN to use; empty: the system's")
if(TESSERA_ONEDNN_ROOT)
    set(onednn_where PATHS ${TESSERA_ONEDNN_ROOT} NO_DEFAULT_PATH)
endif()
# Not cached, so that another TESSERA_ONEDNN_ROOT in the same build tree takes effect.
find_path(onednn_include oneapi/dnnl/dnnl_version.h ${onednn_where} PATH_SUFFIXES include NO_CACHE)
find_library(onednn_library dnnl ${onednn_where} PATH_SUFFIXES lib lib64 NO_CACHE)
if(NOT onednn_include OR NOT onednn_library)
    message(FATAL_ERROR "oneDNN: no oneapi/dnnl/dnnl_version.h or no libdnnl in "
        "'${TESSERA_ONEDNN_ROOT}' (empty: the system). Install libdnnl-dev, or set "
        "TESSERA_ONEDNN_ROOT to a tree that has include/ and lib/.")
endif()
file(STRINGS ${onednn_include}/oneapi/dnnl/dnnl_version.h onednn_lines
    REGEX "define DNNL_VERSION_(MAJOR|MINOR|PATCH) ")
string(REGEX REPLACE "[^0-9;]+" "" onednn_lines "${onednn_lines}")
list(JOIN onednn_lines "." onednn_version)
if(onednn_version VERSION_LESS 2.6 OR onednn_version VERSION_GREATER_EQUAL 4
        OR (onednn_version VERSION_GREATER_EQUAL 2.8 AND onednn_version VERSION_LESS 3))
    message(FATAL_ERROR "oneDNN: ${onednn_library} is version ${onednn_version}, "
        "Tessera needs 2.6, 2.7 or 3.x.")
endif()
message(STATUS "oneDNN ${onednn_version}: ${onednn_library}")
add_library(onednn INTERFACE IMPORTED)
target_include_directories(onednn INTERFACE ${onednn_include})
target_link_libraries(onednn INTERFACE ${onednn_library})
# If the loader does not search oneDNN's folder, the installed library stores its path. In the build
# tree CMake does this.
set(TESSERA_ONEDNN_RPATH)
if(TESSERA_ONEDNN_ROOT)
    cmake_path(GET onednn_library PARENT_PATH TESSERA_ONEDNN_RPATH)
endif()

# A part of io or train is AUTO (built if its libraries are found), ON (they must be found) or OFF. They
# are found if all variables after `needs` are true.
function(tessera_part part needs)
    set(TESSERA_${part} AUTO CACHE STRING "AUTO, ON or OFF; needs ${needs}")
    set_property(CACHE TESSERA_${part} PROPERTY STRINGS AUTO ON OFF)
    set(found ON)
    foreach(variable IN LISTS ARGN)
        if(NOT ${variable})
            set(found OFF)
        endif()
    endforeach()
    if(TESSERA_${part} STREQUAL AUTO)
        set(enabled ${found})
    elseif(TESSERA_${part} AND NOT found)
        message(FATAL_ERROR "TESSERA_${part} is ON but needs ${needs}")
    else()
        set(enabled ${TESSERA_${part}})
    endif()
    if(enabled)
        message(STATUS "${part}: yes")
        set(TESSERA_HAVE_${part} 1 PARENT_SCOPE)
    else()
        message(STATUS "${part}: no (needs ${needs})")
        set(TESSERA_HAVE_${part} 0 PARENT_SCOPE)
    endif()
endfunction()

pkg_check_modules(PROTOBUF_C QUIET IMPORTED_TARGET libprotobuf-c)
find_program(PROTOC_C protoc-c)
# The schema is the same for every target machine.
find_path(ONNX_PROTO_DIR onnx/onnx.proto CMAKE_FIND_ROOT_PATH_BOTH)
tessera_part(ONNX "libprotobuf-c, protoc-c and onnx/onnx.proto" PROTOBUF_C_FOUND PROTOC_C ONNX_PROTO_DIR)

pkg_check_modules(JANSSON QUIET IMPORTED_TARGET jansson)
tessera_part(SAFETENSORS "jansson" JANSSON_FOUND)

pkg_check_modules(PCRE2 QUIET IMPORTED_TARGET libpcre2-8)
tessera_part(PCRE "libpcre2-8" PCRE2_FOUND)

find_package(PNG QUIET)
tessera_part(PNG "libpng" PNG_FOUND)

find_package(JPEG QUIET)
tessera_part(JPEG "libjpeg" JPEG_FOUND)

pkg_check_modules(OPENMPI QUIET IMPORTED_TARGET ompi-c)
tessera_part(MPI "Open MPI (ompi-c)" OPENMPI_FOUND)
