# What `cmake --install` puts where: the libraries, the headers, weft.pc, weft-hook.pc, weft-http.pc and the CMake package;
# the command `weft`, its man page, and its completion for shells.
#
# The installed tree may be moved: weft.pc and the package find their prefix from where they lie, unless
# CMAKE_INSTALL_LIBDIR or CMAKE_INSTALL_INCLUDEDIR was given as an absolute path.
include(CMakePackageConfigHelpers)

set(weft_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/weft)
set(weft_pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(TARGETS weft weft_static weft_hook weft_http weft_http_static EXPORT weftTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES ${PROJECT_BINARY_DIR}/src/hook/weft-hook.o DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/weft DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h")

install(FILES ${PROJECT_SOURCE_DIR}/docs/hooks.md ${PROJECT_SOURCE_DIR}/docs/hooks-locks.md
  DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/weft)

# The command is linked with the static libraries: it needs nothing of what is installed beside it.
install(TARGETS weft_tool RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES ${PROJECT_SOURCE_DIR}/docs/man/weft.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${PROJECT_SOURCE_DIR}/tools/weft/completion/weft.bash RENAME weft
  DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/bash-completion/completions)
install(FILES ${PROJECT_SOURCE_DIR}/tools/weft/completion/_weft DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/zsh/site-functions)
install(FILES ${PROJECT_SOURCE_DIR}/tools/weft/completion/weft.fish
  DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/fish/vendor_completions.d)

# weft.pc: ${prefix} is written relative to the file itself where the layout allows it.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  set(weft_pc_prefix ${CMAKE_INSTALL_PREFIX})
  set(weft_pc_libdir ${CMAKE_INSTALL_LIBDIR})
else()
  file(RELATIVE_PATH weft_pc_up "/${weft_pc_dir}" "/")
  string(REGEX REPLACE "/$" "" weft_pc_up "${weft_pc_up}")
  set(weft_pc_prefix "\${pcfiledir}/${weft_pc_up}")
  set(weft_pc_libdir "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
endif()
if(IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
  set(weft_pc_includedir ${CMAKE_INSTALL_INCLUDEDIR})
else()
  set(weft_pc_includedir "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
set(weft_pc_uring "")
if(weft_uring)
  set(weft_pc_uring " -luring")
endif()
configure_file(${PROJECT_SOURCE_DIR}/cmake/weft.pc.in ${PROJECT_BINARY_DIR}/weft.pc @ONLY)
configure_file(${PROJECT_SOURCE_DIR}/cmake/weft-hook.pc.in ${PROJECT_BINARY_DIR}/weft-hook.pc @ONLY)
configure_file(${PROJECT_SOURCE_DIR}/cmake/weft-http.pc.in ${PROJECT_BINARY_DIR}/weft-http.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/weft.pc ${PROJECT_BINARY_DIR}/weft-hook.pc ${PROJECT_BINARY_DIR}/weft-http.pc
  DESTINATION ${weft_pc_dir})

# The package: find_package(weft), then link weft::weft or weft::weft_static, and weft::hook or weft::hook_object for the hooks.
set(weft_hook_object ${CMAKE_INSTALL_LIBDIR}/weft-hook.o)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/weftConfig.cmake.in ${PROJECT_BINARY_DIR}/weftConfig.cmake
  INSTALL_DESTINATION ${weft_package_dir} PATH_VARS weft_hook_object NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/weftConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/weftConfig.cmake ${PROJECT_BINARY_DIR}/weftConfigVersion.cmake
  DESTINATION ${weft_package_dir})
install(EXPORT weftTargets NAMESPACE weft:: DESTINATION ${weft_package_dir})
