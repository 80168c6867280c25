// The official tracing service on its two sockets, for the scenarios to run
// against. The core is the one amalgamated file the official SDK builds from;
// its hosting classes are not part of the SDK's public interface, so it is
// compiled into this program as a whole.

#include PERFETTO_CORE

#include <cstdio>
#include <cstdlib>

int main() {
  const char* producer = getenv("PERFETTO_PRODUCER_SOCK_NAME");
  const char* consumer = getenv("PERFETTO_CONSUMER_SOCK_NAME");
  if (!producer || !consumer) {
    fputs("the socket names are not in the environment\n", stderr);
    return 1;
  }
  // The service does not take over the sockets of one that went: the official
  // daemon's main function does.
  remove(producer);
  remove(consumer);
  perfetto::base::UnixTaskRunner task_runner;
  auto host = perfetto::ServiceIPCHost::CreateInstance(&task_runner);
  if (!host->Start(producer, consumer))
    return 1;
  puts("ok");
  fflush(stdout);
  task_runner.Run();
}
