// A program that loads the library like a plugin, uses it, unloads it and continues; twice.
// Arguments: the library, a file with the encoded config, and a file for the trace.

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct attachment;
struct category_description {
  const char* name;
  const char* description;
  const char** tags;
  size_t tag_count;
};

enum { INSTANT = 3 };

#define FUNCTIONS(F)                                                                             \
  F(void*, PerfettoProducerBackendInitArgsCreate, (void))                                        \
  F(void, PerfettoProducerBackendInitArgsDestroy, (void*))                                       \
  F(void, PerfettoProducerInProcessInit, (const void*))                                          \
  F(void, PerfettoTeInit, (void))                                                                \
  F(void*, PerfettoTeCategoryImplCreate, (struct category_description*))                         \
  F(void, PerfettoTePublishCategories, (void))                                                   \
  F(_Atomic bool*, PerfettoTeCategoryImplGetEnabled, (void*))                                    \
  F(void, PerfettoTeHlEmitImpl, (void*, int32_t, const char*, struct attachment* const*))        \
  F(void*, PerfettoTracingSessionInProcessCreate, (void))                                        \
  F(void, PerfettoTracingSessionSetup, (void*, void*, size_t))                                   \
  F(void, PerfettoTracingSessionStartBlocking, (void*))                                          \
  F(void, PerfettoTracingSessionStopBlocking, (void*))                                           \
  F(void, PerfettoTracingSessionReadTraceBlocking,                                               \
    (void*, void (*)(void*, const void*, size_t, bool, void*), void*))                           \
  F(void, PerfettoTracingSessionDestroy, (void*))

#define DECLARE(result, name, arguments) static result(*name) arguments;
FUNCTIONS(DECLARE)

static void* category;
static pthread_barrier_t traced, released;

static void emit(const char* name) {
  struct attachment* none[] = {NULL};
  if (*PerfettoTeCategoryImplGetEnabled(category))
    PerfettoTeHlEmitImpl(category, INSTANT, name, none);
}

// Ends only after the library was unloaded.
static void* outlive(void* unused) {
  emit("thread");
  pthread_barrier_wait(&traced);
  pthread_barrier_wait(&released);
  return unused;
}

static void write_out(void* session, const void* data, size_t size, bool more, void* file) {
  (void)session, (void)more;
  fwrite(data, 1, size, file);
}

static void use(const char* library, void* config, size_t size, FILE* out) {
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
#define LOOK_UP(result, name, arguments) name = (result(*) arguments)dlsym(handle, #name);
  FUNCTIONS(LOOK_UP)
  void* args = PerfettoProducerBackendInitArgsCreate();
  PerfettoProducerInProcessInit(args);
  PerfettoProducerBackendInitArgsDestroy(args);
  PerfettoTeInit();
  static struct category_description description = {"plugin", "", NULL, 0};
  category = PerfettoTeCategoryImplCreate(&description);
  PerfettoTePublishCategories();

  void* session = PerfettoTracingSessionInProcessCreate();
  PerfettoTracingSessionSetup(session, config, size);
  PerfettoTracingSessionStartBlocking(session);
  pthread_t thread;
  pthread_create(&thread, NULL, outlive, NULL);
  pthread_barrier_wait(&traced);
  emit("main");
  PerfettoTracingSessionStopBlocking(session);
  PerfettoTracingSessionReadTraceBlocking(session, write_out, out);
  PerfettoTracingSessionDestroy(session);

  dlclose(handle);
  pthread_barrier_wait(&released);
  pthread_join(thread, NULL);
}

int main(int count, char** arguments) {
  if (count != 4)
    return 2;
  static char config[4096];
  FILE* in = fopen(arguments[2], "rb");
  size_t size = fread(config, 1, sizeof config, in);
  fclose(in);
  pthread_barrier_init(&traced, NULL, 2);
  pthread_barrier_init(&released, NULL, 2);
  FILE* out = fopen(arguments[3], "wb");
  use(arguments[1], config, size, out);
  use(arguments[1], config, size, out);
  return fclose(out);
}
