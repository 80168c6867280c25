// What the measurement of costs runs:
//   pairs COUNT [SIZE]   allocates and frees so many times so many bytes
//   keep COUNT [SIZE]    allocates as often, and frees nothing
// Both say how many nanoseconds of CPU time, and of time, each took.
//   run SECONDS NAME=VALUE... -- PROGRAM...
// runs a program for as long at most, and says on standard error how many seconds of CPU time, and
// how many KiB of memory, it took.
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pid_t child;

static double now(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return time.tv_sec * 1e9 + time.tv_nsec;
}

static void pairs(long count, size_t size) {
  for (long at = 0; at < count; at++) {
    void *memory = malloc(size);
    __asm__ volatile("" : : "r"(memory) : "memory");
    free(memory);
  }
}

static void keep(void **kept, long count, size_t size) {
  for (long at = 0; at < count; at++) kept[at] = malloc(size);
}

static void on_alarm(int number) {
  (void)number;
  kill(-child, SIGKILL);
}

static int run(char **words) {
  unsigned seconds = atoi(*words++);
  child = fork();
  if (child == 0) {
    setpgid(0, 0);
    for (; strcmp(*words, "--") != 0; words++) putenv(*words);
    dup2(open("/dev/null", O_WRONLY), 2);
    execvp(words[1], words + 1);
    _exit(127);
  }
  setpgid(child, child);
  signal(SIGALRM, on_alarm);
  alarm(seconds);
  int status;
  struct rusage usage;
  if (wait4(child, &status, 0, &usage) != child) return 1;
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return 1;
  struct timeval user = usage.ru_utime, system = usage.ru_stime;
  fprintf(stderr, "%.4f %ld\n", user.tv_sec + system.tv_sec + (user.tv_usec + system.tv_usec) / 1e6, usage.ru_maxrss);
  return 0;
}

int main(int argc, char **argv) {
  if (!strcmp(argv[1], "run")) return run(argv + 2);
  long count = atol(argv[2]);
  size_t size = argc > 3 ? atol(argv[3]) : 32;
  int keeps = !strcmp(argv[1], "keep");
  // Whatever happens once is over then.
  pairs(count / 100 + 1, size);
  void **kept = keeps ? calloc(count, sizeof *kept) : NULL;
  double cpu = now(CLOCK_THREAD_CPUTIME_ID), time = now(CLOCK_MONOTONIC);
  if (keeps) keep(kept, count, size);
  else pairs(count, size);
  printf("%.2f %.2f\n", (now(CLOCK_THREAD_CPUTIME_ID) - cpu) / count, (now(CLOCK_MONOTONIC) - time) / count);
  return 0;
}
