/* Uses the processor for some seconds (1), in functions that call each other. */
#include <stdlib.h>
#include <time.h>

static volatile unsigned sum;

__attribute__((noinline)) void innermost(void) {
    for (unsigned i = 0; i < 1000000; i++) sum += i;
}

__attribute__((noinline)) void middle(int depth) {
    if (depth > 0)
        middle(depth - 1);
    else
        innermost();
    sum++;
}

int main(int count, char **arguments) {
    int seconds = count > 1 ? atoi(arguments[1]) : 1;
    struct timespec now, start;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        middle(5);
        sum++;
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec - start.tv_sec < seconds);
    return 0;
}
