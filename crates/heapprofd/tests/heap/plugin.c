// A library that allocates, loaded by the test's program.
#include <stdlib.h>

static void *volatile sink;

__attribute__((noinline)) void NAME(void) { sink = malloc(300); }

void leak(void) {
  NAME();
  __asm__ volatile("");
}
