// Upstream's own service and endpoints as programs, for the scenarios to run
// against. The core is the one amalgamated file the official SDK builds from;
// these classes are not part of the SDK's public interface, so this program
// compiles all of it.

#include PERFETTO_CORE

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "consumer.h"
#include "startup.h"

namespace {

// Prints `ok` when it listens; runs until it is killed.
int RunService() {
  const char* producer = getenv("PERFETTO_PRODUCER_SOCK_NAME");
  const char* consumer = getenv("PERFETTO_CONSUMER_SOCK_NAME");
  if (!producer || !consumer) {
    fputs("the socket names are not in the environment\n", stderr);
    return 1;
  }
  // The service does not replace sockets of an earlier one: the official
  // daemon's main function does that.
  remove(producer);
  remove(consumer);
  perfetto::base::UnixTaskRunner task_runner;
  auto host = perfetto::ServiceIPCHost::CreateInstance(&task_runner);
  if (!host->Start(producer, consumer))
    return 1;
  puts("ok");
  fflush(stdout);
  task_runner.Run();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const char* role = argc > 1 ? argv[1] : "";
  if (!strcmp(role, "service"))
    return RunService();
  if (!strcmp(role, "consumer"))
    return interop::Serve(interop::Consumer());
  if (!strcmp(role, "startup"))
    return interop::Serve(interop::Startup());
  fputs("usage: official-core service|consumer|startup\n", stderr);
  return 1;
}
