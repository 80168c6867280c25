// Connects the clients and profilers of two projects. On Linux upstream's client starts its profiler
// itself and hands it one end of a socket pair: here one end becomes a socket to somebody else.
//
// BRIDGE=profiler: BRIDGE_SOCKET is where our profiler listens, which upstream's client gets.
// BRIDGE=client: a connection of our client comes from BRIDGE_SOCKET, which upstream's profiler gets.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int pairs, control = -1;

static int is_to_profiler(void) {
  const char *bridge = getenv("BRIDGE");
  return bridge && !strcmp(bridge, "profiler");
}

static int dial(void) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  strncpy(address.sun_path, getenv("BRIDGE_SOCKET"), sizeof address.sun_path - 1);
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0) _exit(7);
  return fd;
}

// The descriptor that comes with a byte.
static int received(int from) {
  char byte;
  union {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
  } room;
  struct iovec part = {&byte, 1};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &room, .msg_controllen = sizeof room};
  if (recvmsg(from, &message, 0) != 1 || message.msg_controllen < sizeof room.header) _exit(7);
  int fd;
  memcpy(&fd, CMSG_DATA(&room.header), sizeof fd);
  return fd;
}

int socketpair(int domain, int type, int protocol, int fds[2]) {
  int (*next)(int, int, int, int[2]) = dlsym(RTLD_NEXT, "socketpair");
  int result = next(domain, type, protocol, fds);
  if (result != 0) return result;
  switch (pairs++) {
    case 0:
      // Between client and profiler: a byte begins a session.
      if (is_to_profiler()) {
        control = dup(fds[1]);
        if (write(control, "x", 1) != 1) _exit(7);
      }
      break;
    case 1: {
      // The session's: the profiler's end, then the client's.
      int fd = dial();
      int end = is_to_profiler();
      close(fds[end]);
      fds[end] = end ? fd : received(fd);
    }
  }
  return 0;
}

pid_t fork(void) {
  static int forks;
  pid_t (*next)(void) = dlsym(RTLD_NEXT, "fork");
  pid_t child = next();
  // Upstream's profiler is not needed.
  if (child == 0 && forks++ == 0 && is_to_profiler()) _exit(0);
  return child;
}
