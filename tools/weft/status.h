/*
 * status.h: the live state of a server at /_weft: a page, the figures as JSON, and a stream of figures for the page.
 *
 *      sampler fiber ── each second ──▶ latest snapshot, history ──▶ /_weft/status.json, each /_weft/events
 *
 * The sampler takes the figures once a second, however many clients ask. Only clients on this machine are answered
 * (local.h).
 */
#ifndef TOOL_STATUS_H
#define TOOL_STATUS_H

#include <weft/http.h>

struct status;

/** Adds the routes to a server and starts the sampler. Returns 0 or a negative errno. Call it in a fiber. */
int status_start(struct status **out, weft_http *h);

/** Ends the sampler and releases it; NULL does nothing. Call it after serving has ended, and before weft_http_free. */
void status_end(struct status *s);

#endif
