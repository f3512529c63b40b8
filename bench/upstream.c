/* A provider that is never the bottleneck: one epoll loop, fixed answers.
 *
 * usage: upstream PORT DELAY_US GAP_US
 * A request whose body holds "stream":true or "stream": true is answered by a chunked event stream of EVENTS events, the
 * others by one JSON document. DELAY_US passes before the head, GAP_US between the events (0: all in one write).
 * Port 0 takes any free one; the port is printed on the first line.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MAX_FD 8192
#define MAX_IN 262144
#define EVENTS 20

struct conn { char *in; int len; long due; int next; int busy; int stream; };
static struct conn conns[MAX_FD];
static int poller, active[MAX_FD], active_count;
static long delay_us, gap_us;
static char json_answer[1024], *parts[EVENTS + 3];
static int json_size, part_size[EVENTS + 3], part_count;

static long now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000L + t.tv_nsec / 1000;
}

static void part(const char *event, const char *before) {
  char *out = malloc(1024);
  int size = event ? snprintf(out, 1024, "%s%zx\r\n%s\r\n", before, strlen(event), event) : snprintf(out, 1024, "0\r\n\r\n");
  parts[part_count] = out;
  part_size[part_count++] = size;
}

static void prepare(void) {
  const char *body = "{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion\",\"created\":1,\"model\":\"bench-1\",\"choices\":[{\"index\":0,"
    "\"message\":{\"role\":\"assistant\",\"content\":\"Hello from the bench.\"},\"finish_reason\":\"stop\"}],"
    "\"usage\":{\"prompt_tokens\":12,\"completion_tokens\":5,\"total_tokens\":17}}";
  json_size = snprintf(json_answer, sizeof json_answer,
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nx-request-id: req-1\r\nContent-Length: %zu\r\n\r\n%s", strlen(body), body);
  const char *head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nx-request-id: req-1\r\nTransfer-Encoding: chunked\r\n\r\n";
  const char *chunk = "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"bench-1\","
    "\"choices\":[{\"index\":0,\"delta\":{\"content\":\" word\"},\"finish_reason\":null}]}\n\n";
  for (int i = 0; i < EVENTS; i++) part(chunk, i ? "" : head);
  part("data: {\"id\":\"chatcmpl-1\",\"model\":\"bench-1\",\"choices\":[],\"usage\":{\"prompt_tokens\":12,\"completion_tokens\":20,"
       "\"total_tokens\":32}}\n\n", "");
  part("data: [DONE]\n\n", "");
  part(NULL, "");
}

static void drop(int fd) {
  epoll_ctl(poller, EPOLL_CTL_DEL, fd, NULL);
  close(fd);
  free(conns[fd].in);
  memset(&conns[fd], 0, sizeof conns[fd]);
}

static int send_all(int fd, const char *data, int size) {
  while (size > 0) {
    int n = send(fd, data, size, MSG_NOSIGNAL);
    if (n < 0 && errno == EAGAIN) continue;
    if (n <= 0) return -1;
    data += n;
    size -= n;
  }
  return 0;
}

/* Send what is due; returns 1 when the answer is whole, 0 when more is to come, -1 when the peer is gone. */
static int advance(int fd, long now) {
  struct conn *c = &conns[fd];
  if (now < c->due) return 0;
  if (!c->stream) return send_all(fd, json_answer, json_size) < 0 ? -1 : 1;
  if (gap_us == 0) {
    char all[16384];
    int size = 0;
    for (int i = 0; i < part_count; i++) { memcpy(all + size, parts[i], part_size[i]); size += part_size[i]; }
    return send_all(fd, all, size) < 0 ? -1 : 1;
  }
  if (send_all(fd, parts[c->next], part_size[c->next]) < 0) return -1;
  c->due = now + gap_us;
  return ++c->next == part_count;
}

static int body_end(struct conn *c) {
  char *end = memmem(c->in, c->len, "\r\n\r\n", 4);
  if (!end) return 0;
  char *field = c->in;
  long length = 0;
  while ((field = memchr(field, '\n', end - field + 1)) && field < end) {
    field++;
    if (!strncasecmp(field, "content-length:", 15)) length = atol(field + 15);
  }
  long whole = (end - c->in) + 4 + length;
  if (c->len < whole) return 0;
  c->stream = memmem(end, c->len - (end - c->in), "\"stream\":true", 13) || memmem(end, c->len - (end - c->in), "\"stream\": true", 14);
  return (int)whole;
}

static void readable(int fd) {
  struct conn *c = &conns[fd];
  int n = recv(fd, c->in + c->len, MAX_IN - c->len, 0);
  if (n <= 0) {
    if (n < 0 && errno == EAGAIN) return;
    c->busy ? (void)(c->busy = -1) : drop(fd);
    if (c->busy == -1) epoll_ctl(poller, EPOLL_CTL_DEL, fd, NULL);
    return;
  }
  c->len += n;
  int whole = c->busy ? 0 : body_end(c);
  if (!whole) return;
  memmove(c->in, c->in + whole, c->len - whole);
  c->len -= whole;
  c->busy = 1;
  c->next = 0;
  c->due = now_us() + delay_us;
  active[active_count++] = fd;
}

int main(int argc, char **argv) {
  if (argc != 4) return fprintf(stderr, "usage: upstream PORT DELAY_US GAP_US\n"), 2;
  delay_us = atol(argv[2]);
  gap_us = atol(argv[3]);
  prepare();
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), one = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof address;
  if (bind(listener, (void *)&address, size) || listen(listener, 1024)) return perror("listen"), 1;
  getsockname(listener, (void *)&address, &size);
  printf("%d\n", ntohs(address.sin_port));
  fflush(stdout);
  poller = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, events[256];
  epoll_ctl(poller, EPOLL_CTL_ADD, listener, &event);
  for (;;) {
    struct timespec wait = {0, 100000}, *timeout = active_count ? &wait : NULL;
    int count = epoll_pwait2(poller, events, 256, timeout, NULL);
    for (int i = 0; i < count; i++) {
      int fd = events[i].data.fd;
      if (fd != listener) { readable(fd); continue; }
      while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        if (fd >= MAX_FD) { close(fd); continue; }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        memset(&conns[fd], 0, sizeof conns[fd]);
        conns[fd].in = malloc(MAX_IN);
        struct epoll_event added = {.events = EPOLLIN, .data.fd = fd};
        epoll_ctl(poller, EPOLL_CTL_ADD, fd, &added);
      }
    }
    long now = now_us();
    for (int i = 0; i < active_count;) {
      int fd = active[i], done = conns[fd].busy == -1 ? -1 : advance(fd, now);
      if (done == 0) { i++; continue; }
      active[i] = active[--active_count];
      if (done < 0) drop(fd);
      else { conns[fd].busy = 0; conns[fd].due = 0; }
    }
  }
}
