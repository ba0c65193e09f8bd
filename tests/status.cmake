# The tests of the live state of `weft serve --status`: tests/unit/tools/NAME.c as "unit/tools/NAME".

# weft_status_test(NAME...): as weft_test, linked with that part of the command.
function(weft_status_test name)
  weft_test(unit/tools ${name} ${ARGN})
  if(TARGET test_unit_tools_${name})
    target_link_libraries(test_unit_tools_${name} PRIVATE weft_status test_http)
  endif()
endfunction()

# Pure functions.
weft_status_test(figures)
weft_status_test(latency)
weft_status_test(local)

# Over real sockets.
weft_status_test(status DRIVERS)
