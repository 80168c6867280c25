// A program to be sampled: `target spin|read|sleep|hand SOCKET`. Ends when standard input is closed.
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static volatile unsigned long sink;

__attribute__((noinline)) void innermost(void) {
  for (unsigned long i = 0; i < 100000; i++) sink += i;
}

__attribute__((noinline)) void middle(void) { innermost(); sink++; }

__attribute__((noinline)) void outer(void) { middle(); sink++; }

// Whether there is something to read; ends the program if there never will be.
static int asked(void) {
  struct pollfd in = {.fd = 0, .events = POLLIN};
  if (poll(&in, 1, 0) <= 0) return 0;
  char byte;
  if (read(0, &byte, 1) != 1) _exit(0);
  return 1;
}

static void hand_over(const char *path) {
  int fds[2] = {open("/proc/self/maps", O_RDONLY), open("/proc/self/mem", O_RDONLY)};
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  strncpy(address.sun_path, path, sizeof address.sun_path - 1);
  int sock = socket(AF_UNIX, SOCK_STREAM, 0);
  if (connect(sock, (struct sockaddr *)&address, sizeof address)) _exit(1);
  char byte = 1, space[CMSG_SPACE(sizeof fds)] = {0};
  struct iovec part = {&byte, 1};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
  struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof fds);
  memcpy(CMSG_DATA(rights), fds, sizeof fds);
  if (sendmsg(sock, &message, 0) != 1) _exit(1);
  close(sock);
}

int main(int count, char **arguments) {
  const char *what = count > 1 ? arguments[1] : "spin";
  char buffer[65536];
  // The kernel copies a stack up to the first page that was never touched.
  memset(buffer, 1, sizeof buffer);
  __asm__ volatile("" : : "r"(buffer) : "memory");
  int zero = open("/dev/zero", O_RDONLY);
  for (;;) {
    int is_asked = asked();
    if (!strcmp(what, "read")) {
      for (int i = 0; i < 100; i++) sink += read(zero, buffer, sizeof buffer);
    } else if (!strcmp(what, "sleep")) {
      usleep(20000);
    } else {
      if (is_asked && count > 2) hand_over(arguments[2]);
      outer();
    }
  }
}
