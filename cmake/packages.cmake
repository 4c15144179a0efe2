# Debian packages with cpack: libtessera0, libtessera-dev and tessera-tools, one for each component.
# tools/deb builds them in build/release, and tests them.
set(TESSERA_MAINTAINER "Tessera developers <developers@tessera.example.org>" CACHE STRING
    "Name and address in packages: of who distributes them")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_VENDOR Tessera)
set(CPACK_PACKAGE_CONTACT ${TESSERA_MAINTAINER})
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_COMPONENTS_ALL library development tools)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "") # the first line of each description

set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libtessera${PROJECT_VERSION_MAJOR})
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SHLIBDEPS ON)
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION
"tensor runtime on top of oneDNN, shared library
CPUs run deep networks fastest in the blocked memory layouts of oneDNN. Tessera
keeps tensors in them, converts weights once, freezes models into files that
are mapped, and counts every reorder.
.
This package has the shared library.")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libtessera-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
    "${CPACK_DEBIAN_LIBRARY_PACKAGE_NAME} (= ${PROJECT_VERSION})")
# Programs that link the static library need these.
set(static_needs libdnnl-dev libhwloc-dev)
if(TESSERA_HAVE_ONNX)
    list(APPEND static_needs libprotobuf-c-dev)
endif()
if(TESSERA_HAVE_SAFETENSORS)
    list(APPEND static_needs libjansson-dev)
endif()
if(TESSERA_HAVE_PCRE)
    list(APPEND static_needs libpcre2-dev)
endif()
if(TESSERA_HAVE_PNG)
    list(APPEND static_needs libpng-dev)
endif()
if(TESSERA_HAVE_JPEG)
    list(APPEND static_needs libjpeg62-turbo-dev)
endif()
if(TESSERA_HAVE_MPI)
    list(APPEND static_needs libopenmpi-dev)
endif()
list(JOIN static_needs ", " CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SUGGESTS)
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION
"tensor runtime on top of oneDNN, headers and static library
CPUs run deep networks fastest in the blocked memory layouts of oneDNN. Tessera
keeps tensors in them, converts weights once, freezes models into files that
are mapped, and counts every reorder.
.
This package has what programs are compiled with: the header, the static
library, and files for pkg-config and CMake.")

set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME tessera-tools)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION science)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_TOOLS_PACKAGE_DEPENDS
    "${CPACK_DEBIAN_LIBRARY_PACKAGE_NAME} (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_TOOLS_PACKAGE_SUGGESTS graphviz)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR})
set(CPACK_COMPONENT_TOOLS_DESCRIPTION
"tensor runtime on top of oneDNN, command
CPUs run deep networks fastest in the blocked memory layouts of oneDNN. Tessera
keeps tensors in them, converts weights once, freezes models into files that
are mapped, and counts every reorder.
.
This package has the command tessera, which runs, measures, trains, freezes
and explains ONNX models and built-in networks.")

# Copyright and changelogs of each package, compressed without a timestamp. The version has no Debian
# revision, because Debian does not make these packages.
if(TESSERA_DEB)
    set(debian ${PROJECT_BINARY_DIR}/debian)
    file(MAKE_DIRECTORY ${debian})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS CHANGELOG.md)
    file(STRINGS CHANGELOG.md released REGEX "^## \\[${PROJECT_VERSION}\\] - [0-9-]+$")
    string(REGEX REPLACE ".* - " "" released "${released}")
    execute_process(COMMAND date -u -R -d ${released} OUTPUT_VARIABLE TESSERA_RELEASED
        OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
    configure_file(cmake/debian/changelog.in ${debian}/changelog @ONLY)
    configure_file(CHANGELOG.md ${debian}/CHANGELOG.md COPYONLY)
    execute_process(COMMAND gzip -9nf changelog CHANGELOG.md
        WORKING_DIRECTORY ${debian} COMMAND_ERROR_IS_FATAL ANY)
    foreach(component IN LISTS CPACK_COMPONENTS_ALL)
        string(TOUPPER ${component} upper)
        install(FILES cmake/debian/copyright ${debian}/changelog.gz ${debian}/CHANGELOG.md.gz
            DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${CPACK_DEBIAN_${upper}_PACKAGE_NAME}
            COMPONENT ${component})
    endforeach()

    install(FILES cmake/debian/lintian_overrides
        DESTINATION ${CMAKE_INSTALL_DATADIR}/lintian/overrides
        RENAME ${CPACK_DEBIAN_LIBRARY_PACKAGE_NAME}
        COMPONENT library)
    install(CODE "execute_process(COMMAND sh -c
        \"gzip -9nf \$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_MANDIR}/man1/*.1\"
        COMMAND_ERROR_IS_FATAL ANY)" COMPONENT tools)

    # Dependencies of packages with programs follow from the symbols that they use.
    add_custom_command(
        OUTPUT ${debian}/symbols ${debian}/shlibs
        COMMAND ${PROJECT_SOURCE_DIR}/cmake/debian/symbols $<TARGET_FILE:tessera>
            ${CPACK_DEBIAN_LIBRARY_PACKAGE_NAME} ${PROJECT_VERSION} ${debian}
        DEPENDS tessera cmake/debian/symbols
        VERBATIM)
    add_custom_target(tessera_symbols ALL DEPENDS ${debian}/symbols)
    file(WRITE ${debian}/triggers "activate-noawait ldconfig\n")
    set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${debian}/symbols ${debian}/shlibs ${debian}/triggers)
endif()
include(CPack)
