# The `weft` command as its users see it: tests/integration/weft/NAME.py as "weft/NAME".
if(Python3_FOUND)
  # weft_command_test(NAME PROGRAM [ARGUMENT...])
  function(weft_command_test name)
    add_test(NAME weft/${name} COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/integration/weft/${name}.py ${ARGN}
      ${CMAKE_CROSSCOMPILING_EMULATOR})
    set_tests_properties(weft/${name} PROPERTIES TIMEOUT 300 LABELS integration)
  endfunction()

  weft_command_test(command $<TARGET_FILE:weft_tool>)
  weft_command_test(serve $<TARGET_FILE:weft_tool>)
  weft_command_test(options $<TARGET_FILE:weft_tool> ${PROJECT_SOURCE_DIR})
  if(NOT CMAKE_CROSSCOMPILING) # it starts another program, and knows of no emulator
    weft_command_test(first_run $<TARGET_FILE:example-first-run> $<TARGET_FILE:weft_tool> ${PROJECT_SOURCE_DIR}/examples/site)
  endif()
else()
  message(STATUS "no python3: the command weft is not tested")
endif()
