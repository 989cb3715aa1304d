/*
 * serve.c - a page over HTTP, on the loopback address alone: one client at a time, for half a minute at
 * most.  Who asks for another host's page is refused, as a page of the web whose name leads here could read
 * ours.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "top.h"

enum { SECONDS = 30, REQUEST = 8192 };

static bool read_request(int fd, char *text)
{
    time_t began = time(NULL);
    size_t n = 0;
    for (ssize_t got; n < REQUEST && time(NULL) - began <= SECONDS; n += (size_t)got) {
        if ((got = read(fd, text + n, REQUEST - n)) <= 0)
            return false;
        text[n + (size_t)got] = 0;
        if (strstr(text, "\r\n\r\n"))
            return true;
    }
    return false;
}

static bool is_for(const char *request, const char *host, int port)
{
    char *line = xformat("\r\nHost: %s:%d\r\n", host, port);
    bool is = strcasestr(request, line);
    free(line);
    return is;
}

static void serve_one(int fd, int port, void (*page)(void *context, FILE *out), void *context)
{
    char request[REQUEST + 1];
    struct timeval limit = {.tv_sec = SECONDS};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    bool whole = read_request(fd, request);
    bool ours = whole && (is_for(request, "127.0.0.1", port) || is_for(request, "localhost", port));
    FILE *out = fdopen(fd, "w");
    if (!out) {
        close(fd);
    } else if (ours && !strncmp(request, "GET /metrics ", 13)) {
        fputs("HTTP/1.0 200 OK\r\nContent-Type: application/openmetrics-text; version=1.0.0; "
              "charset=utf-8\r\n\r\n",
              out);
        page(context, out);
    } else if (whole) {
        fputs(ours ? "HTTP/1.0 404 Not Found\r\n\r\nhere is GET /metrics\n"
                   : "HTTP/1.0 403 Forbidden\r\n\r\n",
              out);
    }
    if (out)
        fclose(out);
}

int top_serve(int port, void (*page)(void *context, FILE *out), void *context)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    socklen_t length = sizeof at;
    int one = 1, client, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) || listen(fd, 16) ||
        getsockname(fd, (struct sockaddr *)&at, &length))
        return complain("top: port %d of 127.0.0.1 can't be had: %s: give another one", port,
                        strerror(errno));
    signal(SIGPIPE, SIG_IGN);
    port = ntohs(at.sin_port);
    printf("http://127.0.0.1:%d/metrics\n", port);
    fflush(stdout);
    while ((client = accept4(fd, NULL, NULL, SOCK_CLOEXEC)) >= 0 || errno == EINTR || errno == ECONNABORTED)
        if (client >= 0)
            serve_one(client, port, page, context);
    return complain("top: nothing can be served any more: %s", strerror(errno));
}
