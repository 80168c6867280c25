// What events cost a C program: whichever library it finds as libperfetto_c.so, recorded into a ring in the process.
// Prints a name and the least of so many turns for each kind of event, in nanoseconds: of all kinds, or of those whose
// names contain the second argument. The third is the size of the memory shared with the service in KiB, 0 for the default.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

// As upstream's `BM_Shlib_TeLlBasic`: what the macros do, with the packet written by the program itself.
static void low_level(int times) {
  for (int i = 0; i < times; i++) {
    if (!PERFETTO_ATOMIC_LOAD_EXPLICIT(bench.enabled, PERFETTO_MEMORY_ORDER_RELAXED)) continue;
    struct PerfettoTeTimestamp time = PerfettoTeGetTimestamp();
    for (struct PerfettoTeLlIterator it = PerfettoTeLlBeginSlowPath(&bench, time); it.impl.ds.tracer;
         PerfettoTeLlNext(&bench, time, &it)) {
      struct PerfettoDsRootTracePacket packet;
      PerfettoTeLlPacketBegin(&it, &packet);
      PerfettoTeLlWriteTimestamp(&packet.msg, &time);
      perfetto_protos_TracePacket_set_sequence_flags(&packet.msg,
                                                     perfetto_protos_TracePacket_SEQ_NEEDS_INCREMENTAL_STATE);
      struct PerfettoTeLlInternContext interned;
      PerfettoTeLlInternContextInit(&interned, it.impl.incr, &packet.msg);
      PerfettoTeLlInternRegisteredCat(&interned, &bench);
      uint64_t name = PerfettoTeLlInternEventName(&interned, "Event");
      PerfettoTeLlInternContextDestroy(&interned);
      struct perfetto_protos_TrackEvent event;
      perfetto_protos_TracePacket_begin_track_event(&packet.msg, &event);
      perfetto_protos_TrackEvent_set_type(&event, perfetto_protos_TrackEvent_TYPE_INSTANT);
      PerfettoTeLlWriteRegisteredCat(&event, &bench);
      PerfettoTeLlWriteInternedEventName(&event, name);
      perfetto_protos_TracePacket_end_track_event(&packet.msg, &event);
      PerfettoTeLlPacketEnd(&it, &packet);
    }
  }
}

// As upstream's `BM_Shlib_TeLlBasicNoIntern`.
static void low_level_plain(int times) {
  for (int i = 0; i < times; i++) {
    if (!PERFETTO_ATOMIC_LOAD_EXPLICIT(bench.enabled, PERFETTO_MEMORY_ORDER_RELAXED)) continue;
    struct PerfettoTeTimestamp time = PerfettoTeGetTimestamp();
    for (struct PerfettoTeLlIterator it = PerfettoTeLlBeginSlowPath(&bench, time); it.impl.ds.tracer;
         PerfettoTeLlNext(&bench, time, &it)) {
      struct PerfettoDsRootTracePacket packet;
      PerfettoTeLlPacketBegin(&it, &packet);
      PerfettoTeLlWriteTimestamp(&packet.msg, &time);
      perfetto_protos_TracePacket_set_sequence_flags(&packet.msg,
                                                     perfetto_protos_TracePacket_SEQ_NEEDS_INCREMENTAL_STATE);
      struct perfetto_protos_TrackEvent event;
      perfetto_protos_TracePacket_begin_track_event(&packet.msg, &event);
      perfetto_protos_TrackEvent_set_type(&event, perfetto_protos_TrackEvent_TYPE_INSTANT);
      PerfettoTeLlWriteRegisteredCat(&event, &bench);
      PerfettoTeLlWriteEventName(&event, "Event");
      perfetto_protos_TracePacket_end_track_event(&packet.msg, &event);
      PerfettoTeLlPacketEnd(&it, &packet);
    }
  }
}

static struct PerfettoDs source = PERFETTO_DS_INIT();

// A packet of a data source with so many fields, as upstream's `BM_Shlib_DataSource_DifferentPacketSize`.
static inline void source_packets(int times, int fields) {
  for (int i = 0; i < times; i++) {
    PERFETTO_DS_TRACE(source, it) {
      struct PerfettoDsRootTracePacket packet;
      PerfettoDsTracerPacketBegin(&it, &packet);
      struct perfetto_protos_TestEvent event;
      perfetto_protos_TracePacket_begin_for_testing(&packet.msg, &event);
      struct perfetto_protos_TestEvent_TestPayload payload;
      perfetto_protos_TestEvent_begin_payload(&event, &payload);
      for (int field = 0; field < fields; field++) {
        perfetto_protos_TestEvent_TestPayload_set_cstr_str(&payload, "ABCDEFGH");
      }
      perfetto_protos_TestEvent_end_payload(&event, &payload);
      perfetto_protos_TracePacket_end_for_testing(&packet.msg, &event);
      PerfettoDsTracerPacketEnd(&it, &packet);
    }
  }
}

// The number of fields is read from memory, as it is in upstream's benchmark.
static volatile int field_count;

#define SOURCE_PACKETS(FIELDS)                           \
  static void source_packet_##FIELDS(int times) {        \
    field_count = FIELDS;                                \
    source_packets(times, field_count);                  \
  }

SOURCE_PACKETS(1)
SOURCE_PACKETS(8)
SOURCE_PACKETS(64)
SOURCE_PACKETS(512)
SOURCE_PACKETS(1000)

// As upstream's `BM_Shlib_TeCustomProto`.
static void own_fields(int times) {
  for (int i = 0; i < times; i++) {
    PERFETTO_TE(bench, PERFETTO_TE_INSTANT("instant"),
                PERFETTO_TE_PROTO_FIELDS(PERFETTO_TE_PROTO_FIELD_NESTED(
                    perfetto_protos_TrackEvent_debug_annotations_field_number,
                    PERFETTO_TE_PROTO_FIELD_CSTR(perfetto_protos_DebugAnnotation_name_field_number, "value"),
                    PERFETTO_TE_PROTO_FIELD_VARINT(perfetto_protos_DebugAnnotation_uint_value_field_number, 42))));
  }
}

static void time_only(int times) {
  for (int i = 0; i < times; i++) PerfettoTeGetTimestamp();
}

static const struct {
  const char* name;
  void (*work)(int times);
  // So many that they fit into the memory shared with the service.
  int times;
} kinds[] = {
    {"disabled, 1 argument", disabled, TIMES},
    {"instant", instant, TIMES},
    {"instant, 1 integer", one_integer, TIMES},
    {"instant, 1 text", one_text, TIMES},
    {"instant, own fields", own_fields, TIMES},
    {"slice", slice, TIMES},
    {"low-level instant", low_level, TIMES},
    {"low-level instant, nothing interned", low_level_plain, TIMES},
    {"packet of a data source", source_packet_1, TIMES},
    {"packet of a data source, 8 fields", source_packet_8, TIMES},
    {"packet of a data source, 64 fields", source_packet_64, TIMES / 5},
    {"packet of a data source, 512 fields", source_packet_512, TIMES / 40},
    {"packet of a data source, 1000 fields", source_packet_1000, TIMES / 80},
    {"PerfettoTeGetTimestamp", time_only, TIMES},
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
  struct perfetto_protos_DataSourceConfig source_config;
  perfetto_protos_TraceConfig_DataSource_begin_config(&data_source, &source_config);
  perfetto_protos_DataSourceConfig_set_cstr_name(&source_config, "track_event");
  struct perfetto_protos_TrackEventConfig events;
  perfetto_protos_DataSourceConfig_begin_track_event_config(&source_config, &events);
  perfetto_protos_TrackEventConfig_set_cstr_disabled_categories(&events, "*");
  perfetto_protos_TrackEventConfig_set_cstr_enabled_categories(&events, "bench");
  perfetto_protos_DataSourceConfig_end_track_event_config(&source_config, &events);
  perfetto_protos_TraceConfig_DataSource_end_config(&data_source, &source_config);
  perfetto_protos_TraceConfig_end_data_sources(&config, &data_source);
  perfetto_protos_TraceConfig_begin_data_sources(&config, &data_source);
  perfetto_protos_TraceConfig_DataSource_begin_config(&data_source, &source_config);
  perfetto_protos_DataSourceConfig_set_cstr_name(&source_config, "ferretto.bench");
  perfetto_protos_TraceConfig_DataSource_end_config(&data_source, &source_config);
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
  const char* wanted = argc > 2 ? argv[2] : "";
  double start = now();
  struct PerfettoProducerInitArgs args = PERFETTO_PRODUCER_INIT_ARGS_INIT();
  args.backends = PERFETTO_BACKEND_IN_PROCESS;
  args.shmem_size_hint_kb = argc > 3 ? (uint32_t)atoi(argv[3]) : MEMORY_KB;
  PerfettoProducerInit(args);
  PerfettoTeInit();
  PERFETTO_TE_REGISTER_CATEGORIES(CATEGORIES);
  PerfettoDsRegister(&source, "ferretto.bench", PerfettoDsParamsDefault());
  double registered = now();
  struct PerfettoTracingSessionImpl* session = record();
  double recording = now();
  printf("from the first call to being registered\t%.1f\n", registered - start);
  printf("starting a recording in the process\t%.1f\n", recording - registered);

  double best[KINDS];
  for (int round = 0; round < rounds; round++) {
    for (int kind = 0; kind < KINDS; kind++) {
      if (!strstr(kinds[kind].name, wanted)) continue;
      kinds[kind].work(1);
      double begin = now();
      kinds[kind].work(kinds[kind].times);
      double time = (now() - begin) / kinds[kind].times;
      if (round == 0 || time < best[kind]) best[kind] = time;
      if (!PerfettoTracingSessionFlushBlocking(session, 30000)) complain("the service does not flush");
    }
  }
  for (int kind = 0; rounds > 0 && kind < KINDS; kind++)
    if (strstr(kinds[kind].name, wanted)) printf("%s\t%.1f\n", kinds[kind].name, best[kind]);

  PerfettoTracingSessionStopBlocking(session);
  PerfettoTracingSessionReadTraceBlocking(session, count, NULL);
  // The ring is full of it, or nothing was measured.
  if (rounds > 0 && !*wanted && recorded < RING_KB * 1024 / 2) complain("little was recorded");
  PerfettoTracingSessionDestroy(session);
  return 0;
}
