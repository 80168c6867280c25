// Track events and a custom data source, in plain C.
//
//     cc example.c -o example -lferretto_c
//     ferretto record -- ./example
//
// Perfetto's public headers have macros for all of this. This example shows the functions behind
// them, with its own declarations.

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// ---- Connection to the service ----

struct PerfettoProducerBackendInitArgs;
struct PerfettoProducerBackendInitArgs* PerfettoProducerBackendInitArgsCreate(void);
void PerfettoProducerBackendInitArgsDestroy(struct PerfettoProducerBackendInitArgs*);
void PerfettoProducerSystemInit(const struct PerfettoProducerBackendInitArgs*);
void PerfettoProducerInProcessInit(const struct PerfettoProducerBackendInitArgs*);

// ---- Track events ----

struct category;
struct category_description {
  const char* name;
  const char* description;
  const char** tags;
  size_t tag_count;
};
void PerfettoTeInit(void);
struct category* PerfettoTeCategoryImplCreate(struct category_description*);
void PerfettoTePublishCategories(void);
_Atomic bool* PerfettoTeCategoryImplGetEnabled(struct category*);

enum { SLICE_BEGIN = 1, SLICE_END = 2 };
enum { ARGUMENT_UINT64 = 8 };
struct attachment {
  uint32_t type;
};
struct argument {
  struct attachment header;
  const char* name;
  uint64_t value;
};
// `attachments` is null-terminated.
void PerfettoTeHlEmitImpl(struct category*, int32_t type, const char* name, struct attachment* const* attachments);

// ---- Data sources ----

struct data_source;
struct data_source* PerfettoDsImplCreate(void);
bool PerfettoDsImplRegister(struct data_source*, _Atomic bool** enabled, const void* description, size_t size);

struct iterator {
  uint32_t instance;
  void* thread;
  void* tracer;  // Null after the last instance.
};
struct iterator PerfettoDsImplTraceIterateBegin(struct data_source*);
void PerfettoDsImplTraceIterateNext(struct data_source*, struct iterator*);

struct writer {
  void* opaque;
  uint8_t *begin, *end, *next;
  size_t written_before;
  uint32_t encoding;
};
void PerfettoDsTracerImplPacketBegin(void* tracer, struct writer*);
void PerfettoDsTracerImplPacketEnd(void* tracer, struct writer*);
void PerfettoPbMsgWriterAppendBytesSlowpath(struct writer*, const uint8_t*, size_t);

// ---- The program ----

static struct category_description description = {"example", "Events of the example", NULL, 0};
static struct category* category;
static _Atomic bool* category_enabled;

static struct data_source* source;
static _Atomic bool* source_enabled;

// Records a slice with an argument around some work.
static void work(uint64_t number) {
  if (atomic_load_explicit(category_enabled, memory_order_relaxed)) {
    struct argument argument = {{ARGUMENT_UINT64}, "number", number};
    struct attachment* attachments[] = {&argument.header, NULL};
    PerfettoTeHlEmitImpl(category, SLICE_BEGIN, "work", attachments);
  }
  nanosleep(&(struct timespec){0, 1000000}, NULL);
  if (atomic_load_explicit(category_enabled, memory_order_relaxed)) {
    struct attachment* attachments[] = {NULL};
    PerfettoTeHlEmitImpl(category, SLICE_END, NULL, attachments);
  }
}

// Writes a packet to every recording of the data source: field 900 of TracePacket, a message with a
// text in field 1.
static void report(const char* text) {
  if (!atomic_load_explicit(source_enabled, memory_order_relaxed)) return;
  for (struct iterator i = PerfettoDsImplTraceIterateBegin(source); i.tracer != NULL;
       PerfettoDsImplTraceIterateNext(source, &i)) {
    uint8_t size = (uint8_t)strlen(text);
    uint8_t head[] = {0xa2, 0x38, (uint8_t)(size + 2), 0x0a, size};
    struct writer writer;
    PerfettoDsTracerImplPacketBegin(i.tracer, &writer);
    PerfettoPbMsgWriterAppendBytesSlowpath(&writer, head, sizeof head);
    PerfettoPbMsgWriterAppendBytesSlowpath(&writer, (const uint8_t*)text, size);
    PerfettoDsTracerImplPacketEnd(i.tracer, &writer);
  }
}

int main(void) {
  struct PerfettoProducerBackendInitArgs* args = PerfettoProducerBackendInitArgsCreate();
  PerfettoProducerSystemInit(args);
  PerfettoProducerBackendInitArgsDestroy(args);

  PerfettoTeInit();
  category = PerfettoTeCategoryImplCreate(&description);
  category_enabled = PerfettoTeCategoryImplGetEnabled(category);
  PerfettoTePublishCategories();

  // The encoded descriptor of the data source: field 1 is its name.
  static const char encoded[] = "\x0a\x12" "com.example.report";
  source = PerfettoDsImplCreate();
  if (!PerfettoDsImplRegister(source, &source_enabled, encoded, sizeof encoded - 1)) return EXIT_FAILURE;

  // A running recording contains all of this; others may start later.
  for (uint64_t number = 0; number < 300; number++) {
    work(number);
    if (number % 100 == 0) report("still here");
  }
  return EXIT_SUCCESS;
}
