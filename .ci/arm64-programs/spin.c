/* Uses the processor below functions whose return addresses are signed. */
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

int main(void) {
    time_t end = time(0) + 4;
    while (time(0) < end) {
        middle(5);
        sum++;
    }
    return 0;
}
