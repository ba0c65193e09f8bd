/*
 * io/own.h: closing a descriptor of the library's own (base/own.h) that fibers may wait for.
 */
#ifndef WF_IO_OWN_H
#define WF_IO_OWN_H

/* As weft_close, which leaves such a one alone. */
void wf_close_own(int fd);

#endif
