# Target `docs`: Doxygen writes the reference of the public headers, together with the guide's pages, to
# docs/html of the build folder. Any warning is an error. The target exists if Doxygen is installed.
find_program(DOXYGEN doxygen)
if(DOXYGEN)
    file(GLOB pages CONFIGURE_DEPENDS docs/*.md)
    # First the numbered pages in the order of README.md, then the others.
    file(STRINGS README.md lines REGEX "^[0-9]+\\. .*docs/")
    list(TRANSFORM lines REPLACE ".*\\((docs/[a-z_]+\\.md)\\).*" "${PROJECT_SOURCE_DIR}/\\1")
    list(PREPEND pages ${lines})
    list(REMOVE_DUPLICATES pages)
    set(inputs ${PROJECT_SOURCE_DIR}/README.md ${pages} ${PROJECT_SOURCE_DIR}/CONTRIBUTING.md
        ${PROJECT_SOURCE_DIR}/SECURITY.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md
        ${PROJECT_SOURCE_DIR}/tessera.h ${public_headers})
    list(JOIN inputs "\" \"" DOXYGEN_INPUT)
    string(PREPEND DOXYGEN_INPUT "\"")
    string(APPEND DOXYGEN_INPUT "\"")
    configure_file(cmake/Doxyfile.in ${PROJECT_BINARY_DIR}/Doxyfile @ONLY)
    add_custom_target(docs
        COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/docs
        COMMAND ${DOXYGEN} ${PROJECT_BINARY_DIR}/Doxyfile
        WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
        VERBATIM)
endif()
