// What events cost a C program: whichever library it finds as libperfetto_c.so, recorded into a ring in the process.
// Prints a name and the least of so many turns for each kind of event, in nanoseconds.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "perfetto_c.h"

#define CATEGORIES(C)      \
  C(bench, "bench", "On") \
  C(off, "off", "Off")

PERFETTO_TE_CATEGORIES_DEFINE(CATEGORIES)

// Memory shared with the service, and the ring: what is written in one turn fits in.
enum { MEMORY_KB = 16 * 1024, RING_KB = 16 * 1024, TIMES = 50000 };

static void disabled(int times) {
  for (int i = 0; i < times; i++) {
    PERFETTO_TE(off, PERFETTO_TE_INSTANT("instant"), PERFETTO_TE_ARG_INT64("a", i));
  }
}

static void instant(int times) {
  for (int i = 0; i < times; i++) {
    PERFETTO_TE(bench, PERFETTO_TE_INSTANT("instant"));
  }
}

static void one_integer(int times) {
  for (int i = 0; i < times; i++) {
    PERFETTO_TE(bench, PERFETTO_TE_INSTANT("instant"), PERFETTO_TE_ARG_INT64("a", i));
  }
}

static void one_text(int times) {
  for (int i = 0; i < times; i++) {
    PERFETTO_TE(bench, PERFETTO_TE_INSTANT("instant"), PERFETTO_TE_ARG_STRING("a", "sixteen letters."));
  }
}

static void slice(int times) {
  for (int i = 0; i < times; i++) {
    PERFETTO_TE(bench, PERFETTO_TE_SLICE_BEGIN("slice"));
    PERFETTO_TE(bench, PERFETTO_TE_SLICE_END());
  }
}

static const struct {
  const char* name;
  void (*work)(int times);
} kinds[] = {
    {"disabled, 1 argument", disabled},
    {"instant", instant},
    {"instant, 1 integer", one_integer},
    {"instant, 1 text", one_text},
    {"slice", slice},
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void complain(const char* what) {
  fprintf(stderr, "%s\n", what);
  exit(1);
}

static struct PerfettoTracingSessionImpl* record(void) {
  struct PerfettoPbMsgWriter writer;
  struct PerfettoHeapBuffer* buffer = PerfettoHeapBufferCreate(&writer);
  struct perfetto_protos_TraceConfig config;
  PerfettoPbMsgInit(&config.msg, &writer);
  struct perfetto_protos_TraceConfig_BufferConfig ring;
  perfetto_protos_TraceConfig_begin_buffers(&config, &ring);
  perfetto_protos_TraceConfig_BufferConfig_set_size_kb(&ring, RING_KB);
  perfetto_protos_TraceConfig_end_buffers(&config, &ring);
  struct perfetto_protos_TraceConfig_DataSource data_source;
  perfetto_protos_TraceConfig_begin_data_sources(&config, &data_source);
  struct perfetto_protos_DataSourceConfig source;
  perfetto_protos_TraceConfig_DataSource_begin_config(&data_source, &source);
  perfetto_protos_DataSourceConfig_set_cstr_name(&source, "track_event");
  struct perfetto_protos_TrackEventConfig events;
  perfetto_protos_DataSourceConfig_begin_track_event_config(&source, &events);
  perfetto_protos_TrackEventConfig_set_cstr_disabled_categories(&events, "*");
  perfetto_protos_TrackEventConfig_set_cstr_enabled_categories(&events, "bench");
  perfetto_protos_DataSourceConfig_end_track_event_config(&source, &events);
  perfetto_protos_TraceConfig_DataSource_end_config(&data_source, &source);
  perfetto_protos_TraceConfig_end_data_sources(&config, &data_source);
  size_t size = PerfettoPbMsgWriterGetWrittenSize(&writer);
  void* bytes = malloc(size);
  PerfettoHeapBufferCopyInto(buffer, &writer, bytes, size);
  PerfettoHeapBufferDestroy(buffer, &writer);

  struct PerfettoTracingSessionImpl* session = PerfettoTracingSessionCreate(PERFETTO_BACKEND_IN_PROCESS);
  PerfettoTracingSessionSetup(session, bytes, size);
  free(bytes);
  PerfettoTracingSessionStartBlocking(session);
  if (!*bench.enabled || *off.enabled) complain("recording did not start");
  return session;
}

static size_t recorded;

static void count(struct PerfettoTracingSessionImpl* session, const void* data, size_t size, bool more, void* user) {
  (void)session, (void)data, (void)more, (void)user;
  recorded += size;
}

int main(int argc, char** argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 1;
  double start = now();
  struct PerfettoProducerInitArgs args = PERFETTO_PRODUCER_INIT_ARGS_INIT();
  args.backends = PERFETTO_BACKEND_IN_PROCESS;
  args.shmem_size_hint_kb = MEMORY_KB;
  PerfettoProducerInit(args);
  PerfettoTeInit();
  PERFETTO_TE_REGISTER_CATEGORIES(CATEGORIES);
  double registered = now();
  struct PerfettoTracingSessionImpl* session = record();
  double recording = now();
  printf("from the first call to being registered\t%.1f\n", registered - start);
  printf("starting a recording in the process\t%.1f\n", recording - registered);

  double best[KINDS];
  for (int round = 0; round < rounds; round++) {
    for (int kind = 0; kind < KINDS; kind++) {
      kinds[kind].work(1);
      double begin = now();
      kinds[kind].work(TIMES);
      double time = (now() - begin) / TIMES;
      if (round == 0 || time < best[kind]) best[kind] = time;
      if (!PerfettoTracingSessionFlushBlocking(session, 30000)) complain("the service does not flush");
    }
  }
  for (int kind = 0; rounds > 0 && kind < KINDS; kind++) printf("%s\t%.1f\n", kinds[kind].name, best[kind]);

  PerfettoTracingSessionStopBlocking(session);
  PerfettoTracingSessionReadTraceBlocking(session, count, NULL);
  // The ring is full of it, or nothing was measured.
  if (rounds > 0 && recorded < RING_KB * 1024 / 2) complain("little was recorded");
  PerfettoTracingSessionDestroy(session);
  return 0;
}
