# A library folder: one OBJECT target tessera_<name> of its sources and those one level down, and
# its public headers installed under their folder. Headers named *_impl.h, those of the oneDNN
# wrapper and those one level down stay inside.
function(tessera_folder name)
    file(GLOB sources CONFIGURE_DEPENDS *.c */*.c)
    if(NOT sources)
        set(sources ${CMAKE_CURRENT_BINARY_DIR}/empty.c)
        file(TOUCH ${sources})
    endif()
    add_library(tessera_${name} OBJECT ${sources})
    target_include_directories(tessera_${name} PUBLIC ${PROJECT_SOURCE_DIR})

    file(GLOB headers CONFIGURE_DEPENDS *.h)
    list(FILTER headers EXCLUDE REGEX "_impl\\.h$|/tensor/onednn[^/]*\\.h$")
    install(FILES ${headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tessera/${name})
endfunction()
