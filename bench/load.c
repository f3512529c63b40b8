/* A load generator that is never the bottleneck: one epoll loop, keep-alive, closed loop or paced.
 *
 * usage: load PORT PATH CONNECTIONS SECONDS STREAM RATE
 * STREAM 1 asks for an event stream. RATE 0 sends the next request as soon as an answer is whole; otherwise RATE calls a
 * second are started over all connections. Prints one JSON object: calls, failed, seconds, and in microseconds the
 * median, p90, p99 and maximum of the whole call and of its first byte.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MAX_CALLS 4000000
#define BUFFER 262144

struct conn { int fd; char in[BUFFER]; int len; long sent, first; int busy; long body; int chunked; };
static unsigned *total, *first_byte;
static long calls, failed;
static char request[8192];
static int request_size, poller, port;
static struct conn *conns;

static long now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000L + t.tv_nsec / 1000;
}

static void open_conn(struct conn *c) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int one = 1;
  c->fd = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(c->fd, (void *)&address, sizeof address)) { perror("connect"); exit(1); }
  fcntl(c->fd, F_SETFL, O_NONBLOCK);
  setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
  epoll_ctl(poller, EPOLL_CTL_ADD, c->fd, &event);
  c->len = c->busy = 0;
}

static void start(struct conn *c, long now) {
  if (send(c->fd, request, request_size, MSG_NOSIGNAL) != request_size) { perror("send"); exit(1); }
  c->sent = now;
  c->first = 0;
  c->body = -1;
  c->chunked = c->len = 0;
  c->busy = 1;
}

static void fail(struct conn *c) {
  failed++;
  epoll_ctl(poller, EPOLL_CTL_DEL, c->fd, NULL);
  close(c->fd);
  open_conn(c);
}

/* Whether the answer in the buffer is whole. */
static int whole(struct conn *c) {
  if (c->body < 0) {
    char *end = memmem(c->in, c->len, "\r\n\r\n", 4);
    if (!end) return 0;
    c->body = end - c->in + 4;
    char *field = c->in;
    while ((field = memchr(field, '\n', end - field + 1)) && field < end) {
      field++;
      if (!strncasecmp(field, "content-length:", 15)) c->body += atol(field + 15);
      if (!strncasecmp(field, "transfer-encoding:", 18)) c->chunked = 1;
    }
  }
  if (c->chunked) return c->len >= 5 && !memcmp(c->in + c->len - 5, "0\r\n\r\n", 5);
  return c->len >= c->body;
}

static int by_value(const void *a, const void *b) {
  unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;
  return x < y ? -1 : x > y;
}

static void show(const char *name, unsigned *values) {
  qsort(values, calls, sizeof *values, by_value);
  printf(", \"%s\": {\"p50\": %u, \"p90\": %u, \"p99\": %u, \"max\": %u}", name, calls ? values[calls / 2] : 0,
         calls ? values[calls * 9 / 10] : 0, calls ? values[calls * 99 / 100] : 0, calls ? values[calls - 1] : 0);
}

int main(int argc, char **argv) {
  if (argc != 7) return fprintf(stderr, "usage: load PORT PATH CONNECTIONS SECONDS STREAM RATE\n"), 2;
  port = atoi(argv[1]);
  int count = atoi(argv[3]), stream = atoi(argv[5]);
  double seconds = atof(argv[4]), rate = atof(argv[6]);
  char body[4096];
  int size = snprintf(body, sizeof body, "{\"model\":\"bench-1\",\"stream\":%s,\"stream_options\":{\"include_usage\":true},\"max_tokens\":64,"
    "\"messages\":[{\"role\":\"user\",\"content\":\"%0512d\"}]}", stream ? "true" : "false", 7);
  request_size = snprintf(request, sizeof request,
    "POST %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer sk-bench\r\nContent-Type: application/json\r\n"
    "Accept: application/json\r\nUser-Agent: OpenAI/Python 3.57.0\r\nx-stainless-lang: python\r\nx-stainless-retry-count: 0\r\n"
    "Accept-Encoding: gzip, deflate\r\nContent-Length: %d\r\n\r\n%s", argv[2], port, size, body);
  total = malloc(MAX_CALLS * sizeof *total);
  first_byte = malloc(MAX_CALLS * sizeof *first_byte);
  conns = calloc(count, sizeof *conns);
  poller = epoll_create1(0);
  for (int i = 0; i < count; i++) open_conn(&conns[i]);
  long begin = now_us(), end = begin + (long)(seconds * 1e6), started = 0;
  struct epoll_event events[256];
  for (;;) {
    long now = now_us();
    int busy = 0;
    for (int i = 0; i < count; i++) {
      int due = rate == 0 || started < (now - begin) * rate / 1e6;
      if (!conns[i].busy && now < end && due) { start(&conns[i], now); started++; }
      busy += conns[i].busy;
    }
    if (now >= end && !busy) break;
    if (now >= end + 10000000) { failed += busy; break; }
    int n = epoll_wait(poller, events, 256, rate ? 1 : 100);
    now = now_us();
    for (int i = 0; i < n; i++) {
      struct conn *c = events[i].data.ptr;
      int got = recv(c->fd, c->in + c->len, BUFFER - c->len, 0);
      if (got <= 0) { if (got < 0 && errno == EAGAIN) continue; fail(c); continue; }
      if (!c->first) c->first = now;
      c->len += got;
      if (!whole(c)) continue;
      if (memcmp(c->in, "HTTP/1.1 200", 12)) { fail(c); continue; }
      if (calls < MAX_CALLS) { total[calls] = now - c->sent; first_byte[calls] = c->first - c->sent; calls++; }
      c->busy = 0;
    }
  }
  printf("{\"calls\": %ld, \"failed\": %ld, \"seconds\": %.6f", calls, failed, (now_us() - begin) / 1e6);
  show("total_us", total);
  show("first_byte_us", first_byte);
  printf("}\n");
  return 0;
}
