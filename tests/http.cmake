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
weft_served_test(found)
