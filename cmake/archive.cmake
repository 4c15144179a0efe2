# libtessera.a. All objects are linked into one object in which only public names stay visible, so that
# they cannot collide with functions of a program. Dependencies are linker flags, for programs whose
# build does not use our CMake targets.
set(archive_object ${PROJECT_BINARY_DIR}/tessera.o)
set(archive_objects ${folder_targets})
list(TRANSFORM archive_objects REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>")
add_custom_command(
    OUTPUT ${archive_object}
    COMMAND ${CMAKE_C_COMPILER} -r -nostdlib -o ${archive_object} ${archive_objects}
    COMMAND ${CMAKE_OBJCOPY} --localize-hidden ${archive_object}
    DEPENDS ${archive_objects}
    COMMAND_EXPAND_LISTS)

set(TESSERA_ARCHIVE_NEEDS -ldnnl)
if(TESSERA_ONEDNN_ROOT)
    set(TESSERA_ARCHIVE_NEEDS -L${TESSERA_ONEDNN_RPATH} -ldnnl -Wl,-rpath,${TESSERA_ONEDNN_RPATH})
endif()
set(archive_libraries ${HWLOC_LIBRARIES} ${OpenMP_C_LIB_NAMES} m)
if(TESSERA_HAVE_ONNX)
    list(APPEND archive_libraries ${PROTOBUF_C_LIBRARIES})
endif()
if(TESSERA_HAVE_SAFETENSORS)
    list(APPEND archive_libraries ${JANSSON_LIBRARIES})
endif()
if(TESSERA_HAVE_PCRE)
    list(APPEND archive_libraries ${PCRE2_LIBRARIES})
endif()
if(TESSERA_HAVE_PNG)
    list(APPEND archive_libraries png)
endif()
if(TESSERA_HAVE_JPEG)
    list(APPEND archive_libraries jpeg)
endif()
if(TESSERA_HAVE_MPI)
    list(APPEND archive_libraries mpi)
endif()
foreach(library IN LISTS archive_libraries)
    list(APPEND TESSERA_ARCHIVE_NEEDS -l${library})
endforeach()

add_library(tessera_archive STATIC ${archive_object} ${TESSERA_INCLUDE_DIR}/tessera.h)
add_library(tessera::static ALIAS tessera_archive)
target_include_directories(tessera_archive INTERFACE
    $<BUILD_INTERFACE:${TESSERA_INCLUDE_DIR}>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(tessera_archive INTERFACE ${TESSERA_ARCHIVE_NEEDS})
set_target_properties(tessera_archive PROPERTIES
    OUTPUT_NAME tessera
    EXPORT_NAME static
    LINKER_LANGUAGE C)
add_dependencies(tessera_archive tessera) # both generate tessera.h
