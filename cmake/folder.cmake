# A library folder: one OBJECT target tessera_<name> of its sources and those one level down, and
# its public headers installed under their folder. Headers named *_impl.h and those of the oneDNN
# wrapper stay inside.
function(tessera_folder name)
    file(GLOB sources CONFIGURE_DEPENDS *.c */*.c)
    if(NOT sources)
        set(sources ${CMAKE_CURRENT_BINARY_DIR}/empty.c)
        file(TOUCH ${sources})
    endif()
    add_library(tessera_${name} OBJECT ${sources})
    target_include_directories(tessera_${name} PUBLIC ${PROJECT_SOURCE_DIR})

    file(GLOB headers CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} *.h */*.h)
    list(FILTER headers EXCLUDE REGEX "_impl\\.h$")
    if(name STREQUAL tensor)
        list(FILTER headers EXCLUDE REGEX "^onednn/")
    endif()
    foreach(header IN LISTS headers)
        cmake_path(GET header PARENT_PATH subfolder)
        install(FILES ${header}
            DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tessera/${name}/${subfolder})
    endforeach()
endfunction()
