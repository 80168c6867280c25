// The program whose heap is recorded. Its first argument says what it does; where that is to go on
// later, it waits for a byte on its standard input.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

void free_sized(void *, size_t) __attribute__((weak));
void free_aligned_sized(void *, size_t, size_t) __attribute__((weak));

static void *volatile sink;
static void *slots[1 << 20];

NOINLINE void *leaked(size_t size) {
  void *memory = malloc(size);
  sink = memory;
  return memory;
}

NOINLINE void *passing(size_t size) {
  void *memory = malloc(size);
  sink = memory;
  return memory;
}

static void say(const char *text) {
  if (write(1, text, strlen(text)) < 0) _exit(9);
}

static void wait_for_byte(void) {
  char byte;
  say("w");
  if (read(0, &byte, 1) < 0) _exit(9);
}

__attribute__((constructor)) NOINLINE void before_main(void) {
  sink = malloc(7777);
}

// jemalloc has no pvalloc: its memory is the C library's, which jemalloc cannot free.
NOINLINE void family(bool has_pvalloc) {
  void *kept[16];
  int count = 0;
  kept[count++] = malloc(1000);
  kept[count++] = calloc(10, 100);
  kept[count++] = realloc(malloc(10), 1000);
  kept[count++] = realloc(NULL, 1000);
  kept[count++] = reallocarray(NULL, 10, 100);
  kept[count++] = aligned_alloc(64, 1024);
  kept[count++] = memalign(64, 1000);
  kept[count++] = valloc(1000);
  kept[count++] = has_pvalloc ? pvalloc(1000) : malloc(4096);
  if (posix_memalign(&kept[count], 64, 1000) != 0) _exit(8);
  count++;
  free(NULL);
  // Every other one is given back, two of them as in C23, which not every C library has.
  if (!free_sized || !free_aligned_sized) _exit(8);
  free_sized(kept[0], 1000);
  free_aligned_sized(kept[6], 64, 1000);
  free_sized(NULL, 0);
  for (int at = 2; at < count; at += 2) if (at != 6) free(kept[at]);
}

NOINLINE void failing(void) {
  void *kept = leaked(3000);
  if (realloc(kept, (size_t)-1 / 4) != NULL) _exit(8);
  if (malloc((size_t)-1 / 4) != NULL || errno != ENOMEM) _exit(8);
  if (reallocarray(kept, (size_t)-1 / 2, 8) != NULL || errno != ENOMEM) _exit(8);
}

static void *churn(void *argument) {
  unsigned seed = (unsigned)(uintptr_t)argument;
  void *mine[64] = {0};
  for (int round = 0; round < 4000; round++) {
    int at = rand_r(&seed) % 64;
    free(mine[at]);
    mine[at] = passing(rand_r(&seed) % 500 + 1);
  }
  for (int at = 0; at < 64; at++) free(mine[at]);
  return NULL;
}

static void threads(int count) {
  pthread_t ids[64];
  for (int at = 0; at < count; at++) pthread_create(&ids[at], NULL, churn, (void *)(uintptr_t)(at + 1));
  for (int at = 0; at < count; at++) pthread_join(ids[at], NULL);
}

static void on_signal(int number) {
  (void)number;
  free(passing(100));
}

static void signals(void) {
  struct itimerspec every = {{0, 50000}, {0, 50000}};
  static char stack[65536];
  stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK | SA_RESTART};
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
  timer_t timer;
  sigaltstack(&other, NULL);
  sigaction(SIGUSR1, &action, NULL);
  timer_create(CLOCK_MONOTONIC, &event, &timer);
  timer_settime(timer, 0, &every, NULL);
  // Not of the allocator itself: handlers that interrupt it may not call it.
  for (int round = 0; round < 200000; round++) sink = (void *)(uintptr_t)round;
  timer_delete(timer);
}

// The interface by which allocators tell of themselves.
typedef struct AHeapInfo AHeapInfo;
typedef struct AHeapProfileEnableCallbackInfo AHeapProfileEnableCallbackInfo;
AHeapInfo *AHeapInfo_create(const char *) __attribute__((weak));
AHeapInfo *AHeapInfo_setEnabledCallback(AHeapInfo *, void (*)(void *, const AHeapProfileEnableCallbackInfo *), void *) __attribute__((weak));
AHeapInfo *AHeapInfo_setDisabledCallback(AHeapInfo *, void (*)(void *, const void *), void *) __attribute__((weak));
uint32_t AHeapProfile_registerHeap(AHeapInfo *) __attribute__((weak));
bool AHeapProfile_reportAllocation(uint32_t, uint64_t, uint64_t) __attribute__((weak));
bool AHeapProfile_reportSample(uint32_t, uint64_t, uint64_t) __attribute__((weak));
void AHeapProfile_reportFree(uint32_t, uint64_t) __attribute__((weak));
uint64_t AHeapProfileEnableCallbackInfo_getSamplingInterval(const AHeapProfileEnableCallbackInfo *) __attribute__((weak));

static uint64_t enabled_with;
static int enabled_times, disabled_times;

static void on_enabled(void *data, const AHeapProfileEnableCallbackInfo *info) {
  if (data != &enabled_with) _exit(8);
  // Another heap may be used here.
  free(malloc(10));
  enabled_with = AHeapProfileEnableCallbackInfo_getSamplingInterval(info);
  enabled_times++;
}

static void on_disabled(void *data, const void *info) {
  (void)data, (void)info;
  disabled_times++;
}

NOINLINE void custom_site(uint32_t heap, uint64_t id, uint64_t size) {
  AHeapProfile_reportAllocation(heap, id, size);
}

#define CHECK(what) do { if (!(what)) { say(#what); _exit(8); } } while (0)

static void custom(void) {
  char name[80];
  memset(name, 'n', sizeof name);
  name[64] = 0;
  CHECK(AHeapInfo_create(name) == NULL);
  name[63] = 0;
  CHECK(AHeapInfo_create(name) != NULL);
  CHECK(AHeapProfile_registerHeap(NULL) == 0);
  CHECK(AHeapInfo_setEnabledCallback(NULL, on_enabled, NULL) == NULL);
  // No-ops.
  CHECK(!AHeapProfile_reportAllocation(0, 1, 100));
  CHECK(!AHeapProfile_reportSample(100000, 1, 100));
  AHeapProfile_reportFree(0, 1);
  AHeapProfile_reportFree(0xffffffff, 1);
  AHeapInfo *info = AHeapInfo_create("custom");
  CHECK(AHeapInfo_setEnabledCallback(info, on_enabled, &enabled_with) == info);
  CHECK(AHeapInfo_setDisabledCallback(info, on_disabled, NULL) == info);
  uint32_t heap = AHeapProfile_registerHeap(info);
  CHECK(heap > 1);
  CHECK(AHeapInfo_setEnabledCallback(info, on_enabled, NULL) == NULL);
  // A heap that is registered in a session is recorded at once.
  CHECK(enabled_times == 1 && enabled_with == 1);
  for (int id = 1; id <= 100; id++) custom_site(heap, id, 50);
  for (int id = 1; id <= 40; id++) AHeapProfile_reportFree(heap, id);
  CHECK(AHeapProfile_reportSample(heap, 500, 12345));
  uint32_t high = 0;
  for (int at = 0; at < 300; at++) {
    char other[16];
    sprintf(other, "h%d", at);
    AHeapInfo *made = AHeapInfo_create(other);
    CHECK((made != NULL) == (at < 252));
    uint32_t number = AHeapProfile_registerHeap(made);
    if (number == 200) high = number;
  }
  CHECK(high == 200);
  custom_site(high, 77, 999);
  wait_for_byte();
  // The recording has ended; that is noticed with the next record.
  custom_site(heap, 1000, 10);
  CHECK(disabled_times == 1);
  custom_site(heap, 1001, 10);
  CHECK(disabled_times == 1);
}

static void forked(void) {
  leaked(1 << 20);
  pid_t child = fork();
  if (child == 0) {
    passing(2 << 20);
    _exit(0);
  }
  waitpid(child, NULL, 0);
  child = vfork();
  if (child == 0) {
    sink = malloc(100);
    _exit(0);
  }
  waitpid(child, NULL, 0);
  leaked(3 << 20);
}

// A server that forks its workers, which fork as well.
static void workers(int count) {
  leaked(1 << 20);
  for (int at = 0; at < count; at++) {
    if (fork() != 0) continue;
    leaked(2 << 20);
    pid_t child = fork();
    if (child == 0) {
      passing(4 << 20);
      _exit(0);
    }
    waitpid(child, NULL, 0);
    leaked(2 << 20);
    _exit(0);
  }
  while (wait(NULL) > 0) {}
  leaked(1 << 20);
}

// Mappings: 1 + 2 + 4 MiB are left.
NOINLINE void mapped(void) {
  const size_t mib = 1 << 20;
  const int rw = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
  char *kept = mmap(NULL, mib, rw, flags, -1, 0);
  char *gone = mmap(NULL, 2 * mib, rw, flags, -1, 0);
  char *cut = mmap(NULL, 3 * mib, rw, flags, -1, 0);
  char *grown = mmap(NULL, mib, rw, flags, -1, 0);
  munmap(gone, 2 * mib);
  munmap(cut + mib, mib);
  grown = mremap(grown, mib, 4 * mib, MREMAP_MAYMOVE);
  // The first half is another one's now.
  if (mmap(kept, mib / 2, rw, flags | MAP_FIXED, -1, 0) != kept) _exit(8);
  // No memory yet, and a file's.
  char *reserved = mmap(NULL, 64 * mib, PROT_NONE, flags | MAP_NORESERVE, -1, 0);
  int file = open("/proc/self/exe", O_RDONLY);
  char *code = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, file, 0);
  // What fails changes nothing.
  if (mremap(grown, 4 * mib, (size_t)1 << 46, 0) != MAP_FAILED) _exit(8);
  if (munmap(kept + 1, mib) == 0) _exit(8);
  if (reserved == MAP_FAILED || code == MAP_FAILED || grown == MAP_FAILED) _exit(8);
}

// Libraries that come to the place of another one.
static void plugins(char **libraries) {
  for (int round = 0; round < 5; round++)
    for (char **library = libraries; *library; library++) {
      void *handle = dlopen(*library, RTLD_NOW);
      if (handle == NULL) _exit(8);
      void (*leak)(void) = (void (*)(void))dlsym(handle, "leak");
      for (int at = 0; at < 100; at++) leak();
      if (dlclose(handle) != 0) _exit(8);
    }
}

// The client as a library that is loaded later, and unloaded.
static void late_client(const char *path) {
  void *handle = dlopen(path, RTLD_NOW);
  if (handle == NULL) _exit(8);
  AHeapInfo *(*create)(const char *) = dlsym(handle, "AHeapInfo_create");
  uint32_t (*registered)(AHeapInfo *) = dlsym(handle, "AHeapProfile_registerHeap");
  bool (*report)(uint32_t, uint64_t, uint64_t) = dlsym(handle, "AHeapProfile_reportAllocation");
  uint32_t heap = registered(create("late"));
  if (!report(heap, 1, 1000)) _exit(7);
  if (dlclose(handle) != 0) _exit(8);
  // It has state in all threads, and stays.
  if (!report(heap, 2, 500)) _exit(7);
  say("e");
}

// Becomes another user, as a daemon that gives up its privileges.
static void change_user(void) {
  leaked(1 << 20);
  if (setgid(65534) != 0 || setuid(65534) != 0) _exit(8);
  leaked(2 << 20);
  wait_for_byte();
  // The first one finds that the session has ended.
  free(passing(5000));
  leaked(4 << 20);
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";
  int amount = argc > 2 ? atoi(argv[2]) : 0;
  if (!strcmp(what, "leak")) {
    for (int at = 0; at < amount; at++) leaked(300);
    for (int at = 0; at < amount; at++) free(passing(200));
  } else if (!strcmp(what, "leak-and-wait")) {
    for (int at = 0; at < amount; at++) leaked(300);
    wait_for_byte();
    for (int at = 0; at < amount; at++) leaked(300);
    wait_for_byte();
  } else if (!strcmp(what, "family")) {
    family(amount == 0);
  } else if (!strcmp(what, "failing")) {
    failing();
  } else if (!strcmp(what, "threads")) {
    threads(amount);
  } else if (!strcmp(what, "signals")) {
    signals();
  } else if (!strcmp(what, "custom")) {
    custom();
  } else if (!strcmp(what, "fork")) {
    forked();
  } else if (!strcmp(what, "workers")) {
    workers(amount);
  } else if (!strcmp(what, "mapped")) {
    mapped();
  } else if (!strcmp(what, "plugins")) {
    plugins(argv + 2);
  } else if (!strcmp(what, "late-client")) {
    late_client(argv[2]);
  } else if (!strcmp(what, "change-user")) {
    change_user();
  } else if (!strcmp(what, "exec")) {
    leaked(1 << 20);
    execl(argv[0], argv[0], "after-exec", NULL);
  } else if (!strcmp(what, "after-exec")) {
    passing(5 << 20);
  } else if (!strcmp(what, "close-all")) {
    leaked(1 << 20);
    for (int fd = 3; fd < 4096; fd++) close(fd);
    // By the same numbers, as a daemon's.
    for (int at = 0; at < 800; at++) if (open("/dev/null", O_RDWR) < 0) break;
    leaked(2 << 20);
    for (int at = 0; at < 1000; at++) free(passing(4096));
    _exit(0);
  } else if (!strcmp(what, "unmap-all")) {
    leaked(1 << 20);
    FILE *maps = fopen("/proc/self/maps", "r");
    uintptr_t starts[512], ends[512];
    char line[512];
    int count = 0;
    while (count < 512 && fgets(line, sizeof line, maps))
      if (strstr(line, "memfd:ferretto-heap")) {
        sscanf(line, "%lx-%lx", &starts[count], &ends[count]);
        count++;
      }
    for (int at = 0; at < count; at++) munmap((void *)starts[at], ends[at] - starts[at]);
    if (count == 0) _exit(8);
    for (int at = 0; at < 1000; at++) slots[at] = passing(4096);
  } else if (!strcmp(what, "load")) {
    // Until somebody ends it.
    for (unsigned at = 0;; at++) {
      free(slots[at % 4096]);
      slots[at % 4096] = passing(at % 3000 + 1);
    }
  }
  say("e");
  return 0;
}
