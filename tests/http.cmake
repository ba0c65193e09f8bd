# The tests of libweft-http: tests/unit/http/NAME.c as "unit/http/NAME".

# weft_http_test(NAME [DRIVERS] [TIMEOUT seconds]): as weft_test, linked with the static library.
function(weft_http_test name)
  weft_test(unit/http ${name} ${ARGN})
  if(TARGET test_unit_http_${name})
    target_link_libraries(test_unit_http_${name} PRIVATE weft_http_static)
  endif()
endfunction()

# Pure functions.
weft_http_test(date)
weft_http_test(decode)
weft_http_test(log_line)
weft_http_test(type)
weft_http_test(route)
weft_http_test(route_random)
weft_http_test(files_condition)
weft_http_test(files_folder)
weft_http_test(files_paths)
weft_http_test(chunk)
weft_http_test(field)
weft_http_test(parse)
weft_http_test(parse_fields)
weft_http_test(parse_next)
# The server.

# Tests against real sockets: unit/http/served.h is the server, unit/http/client.h the client.
add_library(test_http STATIC unit/http/served.c unit/http/client.c)
target_link_libraries(test_http PUBLIC weft_http_static test_support)
weft_warnings(test_http)

# weft_served_test(NAME [TIMEOUT seconds]): a weft_http_test with these two, on each driver.
function(weft_served_test name)
  weft_http_test(${name} DRIVERS ${ARGN})
  if(TARGET test_unit_http_${name})
    target_link_libraries(test_unit_http_${name} PRIVATE test_http)
  endif()
endfunction()

weft_served_test(keep)
weft_served_test(latencies)

# What RFC 9110 and 9112 require, row by row, and odd requests, against the server of tests/http. The document is made of both
# (docs/http-conformance.md).
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
  add_executable(test_http_server http/server.c)
  target_compile_definitions(test_http_server PRIVATE _GNU_SOURCE)
  target_link_libraries(test_http_server PRIVATE weft_http_static)
  weft_warnings(test_http_server)
  set(runner ${CMAKE_CROSSCOMPILING_EMULATOR})
  if(WEFT_VALGRIND)
    set(runner ${VALGRIND} --quiet --fair-sched=try --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite
      --suppressions=${CMAKE_CURRENT_SOURCE_DIR}/valgrind.supp)
  endif()
  foreach(driver epoll uring)
    if(driver STREQUAL "uring" AND (NOT weft_uring OR WEFT_VALGRIND))
      continue()
    endif()
    foreach(test must odd)
      set(name http/${test})
      if(driver STREQUAL "uring")
        string(APPEND name _uring)
      endif()
      add_test(NAME ${name} COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/http/${test}.py
        ${runner} $<TARGET_FILE:test_http_server>)
      set_tests_properties(${name} PROPERTIES TIMEOUT 300 LABELS http ENVIRONMENT "WEFT_IO=${driver}")
    endforeach()
  endforeach()
  add_test(NAME http/document COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/http/document.py --check)
  set_tests_properties(http/document PROPERTIES TIMEOUT 60 LABELS http)
else()
  message(STATUS "no python3: the conformance of the HTTP server is not tested")
endif()
