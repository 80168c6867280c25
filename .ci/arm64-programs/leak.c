/* Leaks 100 bytes a thousand times, and frees 500 bytes as often. */
#include <stdlib.h>

static void *volatile last;

__attribute__((noinline)) void remember(size_t size) { last = malloc(size); }

__attribute__((noinline)) void work(size_t size) {
    void *memory = malloc(size);
    last = memory;
    free(memory);
}

int main(void) {
    for (int i = 0; i < 1000; i++) {
        work(500);
        remember(100);
    }
    return 0;
}
