# A library folder: one OBJECT target tessera_<name> of its sources and those one level down; its
# public headers are added to the property TESSERA_HEADERS. Headers named *_impl.h and those of the
# oneDNN wrapper stay inside.
function(tessera_folder name)
    file(GLOB sources CONFIGURE_DEPENDS *.c */*.c)
    if(NOT sources)
        set(sources ${CMAKE_CURRENT_BINARY_DIR}/empty.c)
        file(TOUCH ${sources})
    endif()
    add_library(tessera_${name} OBJECT ${sources})
    target_include_directories(tessera_${name} PUBLIC ${PROJECT_SOURCE_DIR})

    file(GLOB headers CONFIGURE_DEPENDS *.h */*.h)
    list(FILTER headers EXCLUDE REGEX "(_impl\\.h|/tensor/onednn/[^/]*)$")
    set_property(GLOBAL APPEND PROPERTY TESSERA_HEADERS ${headers})
endfunction()
