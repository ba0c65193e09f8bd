/* page.S: the bytes of status.html, from tool_page to tool_page_end. */
    .section .rodata
    .global tool_page
    .type tool_page, %object
tool_page:
    .incbin "status.html"
    .size tool_page, . - tool_page
    .global tool_page_end
    .type tool_page_end, %object
tool_page_end:
    .byte 0
    .size tool_page_end, 1

    .section .note.GNU-stack, "", %progbits
