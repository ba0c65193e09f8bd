/*
 * io/own.h: closing a descriptor of the library's own (base/own.h) that fibers may wait for.
 */
#ifndef WF_IO_OWN_H
#define WF_IO_OWN_H

/* Like weft_close, but for a descriptor of the library's own, which weft_close refuses to close. */
void wf_close_own(int fd);

#endif
