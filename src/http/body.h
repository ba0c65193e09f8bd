/*
 * http/body.h: discards what a handler has not read of its request's body. For the fiber of the exchange.
 */
#ifndef WH_HTTP_BODY_H
#define WH_HTTP_BODY_H

#include <stdbool.h>

#include "http/exchange.h"

/* Whether the answer may promise to keep the connection: true if the rest of the body can probably be drained. */
bool wh_body_can_drain(const weft_exchange *x);

/* Reads the rest of the body and discards it, within the limits. False: the connection cannot serve another request. */
bool wh_body_drain(weft_exchange *x);

#endif
