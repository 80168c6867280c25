// Programs to be sampled, of every kind: `programs KIND [ARGUMENT]`. They run until standard input is closed.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KEPT __attribute__((noinline))

static volatile unsigned long sink;

// Has something on the stack, or compilers do without a frame pointer whatever they are told.
KEPT void burn(void) {
  for (volatile unsigned long i = 0; i < 100000; i++) sink += i;
}

// Whether there is something to read; ends the program if there never will be.
static int asked(void) {
  struct pollfd in = {.fd = 0, .events = POLLIN};
  if (poll(&in, 1, 0) <= 0) return 0;
  char byte;
  if (read(0, &byte, 1) != 1) _exit(0);
  return 1;
}

// A caller without anything of its own on the stack, and one with much.
KEPT void third(void) { burn(); sink++; }
KEPT void second(void) {
  volatile char room[300];
  room[0] = 1;
  third();
  sink += room[0];
}
KEPT void first(void) { second(); sink++; }

// Half of the time between two signals: these and the samples may be due at the same ticks of the kernel, again and again.
KEPT void handler(int number) {
  (void)number;
  struct timespec begun, now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begun);
  do {
    burn();
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  } while ((now.tv_sec - begun.tv_sec) * 1000000000L + now.tv_nsec - begun.tv_nsec < 10000000);
}
KEPT void interrupted(void) {
  for (unsigned long i = 0; i < 20000000; i++) sink += i;
}

KEPT void *on_thread(void *unused) {
  for (;;) first();
  return unused;
}

KEPT unsigned long recurse(unsigned long depth) {
  volatile char room[1000];
  room[0] = 1;
  unsigned long result = depth ? recurse(depth - 1) : (burn(), 1);
  return result + room[0];
}

typedef void (*function)(void);

KEPT void load_and_run(const char *path) {
  void *library = dlopen(path, RTLD_NOW);
  function in_library = library ? (function)dlsym(library, "in_library") : NULL;
  if (!in_library) _exit(1);
  for (;;) {
    in_library();
    asked();
  }
}

// A function made while the program runs, with a frame pointer, told in the map that is read for it.
static function compile(void) {
  static const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0xb9, 0x40, 0x42, 0x0f, 0x00, 0xff, 0xc9, 0x75, 0xfc, 0x5d, 0xc3};
  void *made = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(made, code, sizeof code);
  char name[64];
  snprintf(name, sizeof name, "/tmp/perf-%d.map", getpid());
  FILE *map = fopen(name, "w");
  fprintf(map, "%lx %zx made_at_run_time\n", (unsigned long)made, sizeof code);
  fclose(map);
  return (function)made;
}
KEPT void run_made(function made) { made(); sink++; }

// Overwrites what is above it on the stack: return addresses and saved registers. Never returns.
KEPT void smash(void) {
  volatile unsigned long *stack = (volatile unsigned long *)__builtin_frame_address(0);
  unsigned long seed = 88172645463325252;
  for (;;) {
    for (int i = 0; i < 60; i++) {
      seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
      // Addresses of its own code and stack, null, and whatever comes.
      unsigned long kinds[] = {seed, (unsigned long)&smash + seed % 64, (unsigned long)(stack + seed % 64), 0};
      stack[i] = kinds[seed >> 62];
    }
    burn();
    asked();
  }
}

// Many mappings, and changing ones.
KEPT void many_maps(void) {
  char *all = mmap(NULL, 40000 * 4096ul, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  for (unsigned long page = 0; page < 40000; page += 2) mprotect(all + page * 4096, 4096, PROT_NONE);
  for (unsigned long page = 1;; page = (page + 2) % 40000) {
    mprotect(all + page * 4096, 4096, PROT_NONE);
    first();
    mprotect(all + page * 4096, 4096, PROT_READ);
    asked();
  }
}

KEPT void in_child(int times) {
  while (times--) burn();
}

static void storm(void) {
  for (;;) {
    for (int i = 0; i < 8; i++) {
      if (fork() == 0) {
        // One of them is there for long enough to be looked at.
        in_child(i ? 1 : 200);
        _exit(0);
      }
    }
    while (waitpid(-1, NULL, 0) > 0) sink++;
    asked();
  }
}

int main(int count, char **arguments) {
  const char *what = arguments[1];
  // The kernel copies a stack up to the first page that was never touched.
  char touched[65536];
  memset(touched, 1, sizeof touched);
  __asm__ volatile("" : : "r"(touched) : "memory");
  if (!strcmp(what, "signal")) {
    signal(SIGPROF, handler);
    struct itimerval often = {{0, 20000}, {0, 20000}};
    setitimer(ITIMER_PROF, &often, NULL);
  } else if (!strcmp(what, "threads")) {
    for (int i = 0; i < 2; i++) {
      pthread_t thread;
      pthread_create(&thread, NULL, on_thread, NULL);
    }
    for (;;) {
      asked();
      usleep(10000);
    }
  } else if (!strcmp(what, "smash")) {
    smash();
  } else if (!strcmp(what, "maps")) {
    many_maps();
  } else if (!strcmp(what, "storm")) {
    storm();
  }
  function made = strcmp(what, "jit") ? NULL : compile();
  for (;;) {
    int is_asked = asked();
    if (made) run_made(made);
    else if (!strcmp(what, "signal")) interrupted();
    else if (!strcmp(what, "deep")) recurse(90);
    else if (is_asked && count > 2) load_and_run(arguments[2]);
    else first();
  }
}
