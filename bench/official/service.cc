// The official tracing service as a process of its own, on the sockets that the environment names.

#include "core.h"

#include <cstdio>
#include <cstdlib>

int main() {
  const char* producer = getenv("PERFETTO_PRODUCER_SOCK_NAME");
  const char* consumer = getenv("PERFETTO_CONSUMER_SOCK_NAME");
  if (!producer || !consumer) {
    fputs("the socket names are not in the environment\n", stderr);
    return 1;
  }
  return official_service_run(producer, consumer);
}
