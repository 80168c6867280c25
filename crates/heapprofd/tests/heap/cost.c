// Allocates and frees so many times so many bytes, and says how many nanoseconds of CPU time each
// pair took.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * 1e9 + time.tv_nsec;
}

static void pairs(long count, size_t size) {
  for (long at = 0; at < count; at++) {
    void *memory = malloc(size);
    __asm__ volatile("" : : "r"(memory) : "memory");
    free(memory);
  }
}

int main(int argc, char **argv) {
  long count = atol(argv[1]);
  size_t size = argc > 2 ? atol(argv[2]) : 32;
  // Whatever happens once is over then.
  pairs(count / 100 + 1, size);
  double before = now();
  pairs(count, size);
  printf("%.2f\n", (now() - before) / count);
  return 0;
}
