/*
 * http/body.h: the rest of a request's body, when its handler has returned.
 */
#ifndef WH_HTTP_BODY_H
#define WH_HTTP_BODY_H

#include <stdbool.h>

#include "http/exchange.h"

/* Whether the answer may promise to keep the connection: what is left of the body can probably be drained. */
bool wh_body_can_drain(const weft_exchange *x);

/* Reads what is left and throws it away, within the limits. False: the connection cannot be used for another request. */
bool wh_body_drain(weft_exchange *x);

#endif
