/* Waits for half a second in all, in functions that call each other. */
#include <time.h>

static volatile unsigned sum;

__attribute__((noinline)) void rest(void) {
    struct timespec time = {0, 20000000};
    nanosleep(&time, 0);
    sum++;
}

__attribute__((noinline)) void pause_in(int depth) {
    if (depth > 0)
        pause_in(depth - 1);
    else
        rest();
    sum++;
}

int main(void) {
    for (int i = 0; i < 25; i++) pause_in(2);
    return 0;
}
