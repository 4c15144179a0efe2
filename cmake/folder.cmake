# Adds a library folder: one OBJECT target tessera_<name> of its sources and those up to two levels down.
# Its public headers are added to the property TESSERA_HEADERS; *_impl.h and the headers of the oneDNN
# wrapper are internal.
function(tessera_folder name)
    file(GLOB sources CONFIGURE_DEPENDS *.c */*.c */*/*.c)
    if(ARGN)
        list(FILTER sources EXCLUDE REGEX "${ARGN}")
    endif()
    if(NOT sources)
        set(sources ${CMAKE_CURRENT_BINARY_DIR}/empty.c)
        file(TOUCH ${sources})
    endif()
    add_library(tessera_${name} OBJECT ${sources})
    target_include_directories(tessera_${name} PUBLIC ${PROJECT_SOURCE_DIR})

    file(GLOB headers CONFIGURE_DEPENDS *.h */*.h */*/*.h)
    list(FILTER headers EXCLUDE REGEX "(_impl\\.h|/tensor/onednn/[^/]*)$")
    set_property(GLOBAL APPEND PROPERTY TESSERA_HEADERS ${headers})
endfunction()
