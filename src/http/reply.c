/*
 * http/reply.c: to be written.
 */
typedef int wh_reply_is_empty;
