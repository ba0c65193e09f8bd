/*
 * http/decode.c: to be written.
 */
typedef int wh_decode_is_empty;
