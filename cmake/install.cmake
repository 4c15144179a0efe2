# The installed tree: libraries, header, the command, and files for find_package and pkg-config.
include(CMakePackageConfigHelpers)

install(TARGETS tessera tessera_archive EXPORT tessera_targets
    LIBRARY COMPONENT library NAMELINK_COMPONENT development
    ARCHIVE COMPONENT development)
install(FILES ${TESSERA_INCLUDE_DIR}/tessera.h ${TESSERA_INCLUDE_DIR}/tessera_prefixed.h
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
    COMPONENT development)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tessera)
install(EXPORT tessera_targets
    FILE tesseraTargets.cmake
    NAMESPACE tessera::
    DESTINATION ${package_dir}
    COMPONENT development)
configure_package_config_file(cmake/tesseraConfig.cmake.in tesseraConfig.cmake
    INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(tesseraConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES
    ${PROJECT_BINARY_DIR}/tesseraConfig.cmake
    ${PROJECT_BINARY_DIR}/tesseraConfigVersion.cmake
    DESTINATION ${package_dir}
    COMPONENT development)

# The prefix is relative to the .pc file, so the installed tree can be moved.
file(RELATIVE_PATH pc_prefix
    ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" pc_prefix ${pc_prefix})
list(JOIN TESSERA_ARCHIVE_NEEDS " " pc_needs)
configure_file(cmake/tessera.pc.in tessera.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/tessera.pc
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
    COMPONENT development)
