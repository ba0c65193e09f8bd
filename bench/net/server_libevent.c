/*
 * server_libevent.c: libevent's bufferevents: what came in is moved, not copied, to what goes out. With its list of changes,
 * which saves it most of its calls of epoll_ctl.
 */
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>

#include "../common/case.h"
#include "server.h"

static void on_read(struct bufferevent *b, void *arg)
{
    (void)arg;
    bufferevent_read_buffer(b, bufferevent_get_output(b));
}

static void on_end(struct bufferevent *b, short what, void *arg)
{
    (void)arg;
    if (what & (BEV_EVENT_EOF | BEV_EVENT_ERROR))
        bufferevent_free(b);
}

static void on_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *from, int size, void *arg)
{
    struct bufferevent *b = bufferevent_socket_new(evconnlistener_get_base(listener), fd, BEV_OPT_CLOSE_ON_FREE);

    (void)from, (void)size, (void)arg;
    if (!b)
        case_fail("bufferevent_socket_new");
    bufferevent_setcb(b, on_read, NULL, on_end, NULL);
    bufferevent_enable(b, EV_READ | EV_WRITE);
}

int main(int argc, char **argv)
{
    struct server server = server_open(argc, argv);
    struct event_config *config = event_config_new();
    struct event_base *base;

    if (!config || event_config_set_flag(config, EVENT_BASE_FLAG_EPOLL_USE_CHANGELIST | EVENT_BASE_FLAG_NOLOCK) != 0 ||
        !(base = event_base_new_with_config(config)))
        case_fail("no event base");
    if (!evconnlistener_new(base, on_accept, NULL, LEV_OPT_CLOSE_ON_EXEC, 0, server.listener))
        case_fail("evconnlistener_new");
    server_announce(&server);
    event_base_dispatch(base);
    case_fail("the event loop ended");
}
