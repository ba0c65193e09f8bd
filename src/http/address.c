/*
 * http/address.c: to be written.
 */
typedef int wh_address_is_empty;
