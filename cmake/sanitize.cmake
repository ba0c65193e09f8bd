# WEFT_SANITIZE turns into flags for everything that is built.
if(WEFT_SANITIZE)
  list(JOIN WEFT_SANITIZE "," _kinds)
  add_compile_options(-fsanitize=${_kinds} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${_kinds})
  if("undefined" IN_LIST WEFT_SANITIZE)
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
endif()
