/*
 * http/exchange.c: to be written.
 */
typedef int wh_exchange_is_empty;
