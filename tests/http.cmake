# The tests of libweft-http: tests/unit/http/NAME.c as "unit/http/NAME".

# weft_http_test(NAME [DRIVERS] [TIMEOUT seconds]): as weft_test, linked with the static library.
function(weft_http_test name)
  weft_test(unit/http ${name} ${ARGN})
  if(TARGET test_unit_http_${name})
    target_link_libraries(test_unit_http_${name} PRIVATE weft_http_static)
  endif()
endfunction()

# Pure functions.
weft_http_test(files_condition)
# The server.
