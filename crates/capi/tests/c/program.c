// A program that uses Perfetto's public headers. Records itself and writes the trace to the file in
// its argument. Compiled with the headers of several versions; see c_programs.rs.

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perfetto_c.h"

#define CHECK(condition)                                              \
  do {                                                                \
    if (!(condition)) {                                               \
      fprintf(stderr, "%d: check failed: %s\n", __LINE__, #condition);    \
      exit(1);                                                        \
    }                                                                 \
  } while (0)

#define CATEGORIES(C)                        \
  C(graphics, "graphics", "Drawing", "slow") \
  C(sound, "sound", "Playing")

PERFETTO_TE_CATEGORIES_DEFINE(CATEGORIES)

static struct PerfettoDs source = PERFETTO_DS_INIT();

// The program's state for an instance and for a thread, and counts of callbacks.
static int setups, starts, stops, destroys, flushes, made, cleared, deleted;
static int context;
static int state;

static void* on_setup(struct PerfettoDsImpl* impl, PerfettoDsInstanceIndex id, void* config, size_t size,
                      void* user, struct PerfettoDsOnSetupArgs* args) {
  CHECK(id == 0 && config != NULL && size > 0 && user == &setups && args == NULL && impl != NULL);
  setups++;
  return &context;
}
static void on_start(struct PerfettoDsImpl* impl, PerfettoDsInstanceIndex id, void* user, void* ctx,
                     struct PerfettoDsOnStartArgs* args) {
  CHECK(impl != NULL && id == 0 && user == &setups && ctx == &context && args == NULL);
  starts++;
}
static void on_stop(struct PerfettoDsImpl* impl, PerfettoDsInstanceIndex id, void* user, void* ctx,
                    struct PerfettoDsOnStopArgs* args) {
  CHECK(impl != NULL && id == 0 && user == &setups && ctx == &context);
  stops++;
  PerfettoDsStopDone(PerfettoDsOnStopArgsPostpone(args));
}
static void on_destroy(struct PerfettoDsImpl* impl, void* user, void* ctx) {
  CHECK(impl != NULL && user == &setups && ctx == &context);
  destroys++;
}
static void on_flush(struct PerfettoDsImpl* impl, PerfettoDsInstanceIndex id, void* user, void* ctx,
                     struct PerfettoDsOnFlushArgs* args) {
  CHECK(impl != NULL && id == 0 && user == &setups && ctx == &context);
#ifdef NEW_INTERFACE
  CHECK(PerfettoDsOnFlushArgsGetReason(args) <= PERFETTO_DS_FLUSH_REASON_EXPLICIT);
#endif
  flushes++;
  PerfettoDsFlushDone(PerfettoDsOnFlushArgsPostpone(args));
}
static void* make(struct PerfettoDsImpl* impl, PerfettoDsInstanceIndex id, struct PerfettoDsTracerImpl* tracer,
                  void* user) {
  CHECK(impl != NULL && id == 0 && tracer != NULL && user == &setups);
  made++;
  return &state;
}
static void delete(void* object) {
  CHECK(object == &state);
  deleted++;
}
static bool clear(void* object, void* user) {
  CHECK(object == &state && user == &setups);
  cleared++;
  return true;
}

static void append(struct PerfettoTracingSessionImpl* session, const void* data, size_t size, bool more, void* file) {
  (void)session;
  (void)more;
  CHECK(fwrite(data, 1, size, (FILE*)file) == size);
}

// Returns a config for both data sources, encoded with the library.
static void* make_config(size_t* size) {
  struct PerfettoPbMsgWriter writer;
#ifdef NEW_INTERFACE
  struct PerfettoHeapBuffer* buffer = PerfettoHeapBufferCreate(&writer);
#else
  struct PerfettoHeapBuffer* buffer = PerfettoHeapBufferCreate(&writer.writer);
#endif
  struct perfetto_protos_TraceConfig config;
  PerfettoPbMsgInit(&config.msg, &writer);
  {
    struct perfetto_protos_TraceConfig_BufferConfig buffers;
    perfetto_protos_TraceConfig_begin_buffers(&config, &buffers);
    perfetto_protos_TraceConfig_BufferConfig_set_size_kb(&buffers, 8192);
    perfetto_protos_TraceConfig_end_buffers(&config, &buffers);
  }
  const char* names[] = {"track_event", "com.example.packets"};
  for (int i = 0; i < 2; i++) {
    struct perfetto_protos_TraceConfig_DataSource data_source;
    struct perfetto_protos_DataSourceConfig ds;
    perfetto_protos_TraceConfig_begin_data_sources(&config, &data_source);
    perfetto_protos_TraceConfig_DataSource_begin_config(&data_source, &ds);
    perfetto_protos_DataSourceConfig_set_cstr_name(&ds, names[i]);
    if (i == 0) {
      struct perfetto_protos_TrackEventConfig events;
      perfetto_protos_DataSourceConfig_begin_track_event_config(&ds, &events);
      perfetto_protos_TrackEventConfig_set_cstr_enabled_categories(&events, "gr*");
      perfetto_protos_TrackEventConfig_set_cstr_enabled_categories(&events, "dynamic");
      perfetto_protos_DataSourceConfig_end_track_event_config(&ds, &events);
    }
    perfetto_protos_TraceConfig_DataSource_end_config(&data_source, &ds);
    perfetto_protos_TraceConfig_end_data_sources(&config, &data_source);
  }
#ifdef NEW_INTERFACE
  *size = PerfettoPbMsgWriterGetWrittenSize(&writer);
  void* bytes = malloc(*size);
  PerfettoHeapBufferCopyInto(buffer, &writer, bytes, *size);
  PerfettoHeapBufferDestroy(buffer, &writer);
#else
  *size = PerfettoStreamWriterGetWrittenSize(&writer.writer);
  void* bytes = malloc(*size);
  PerfettoHeapBufferCopyInto(buffer, &writer.writer, bytes, *size);
  PerfettoHeapBufferDestroy(buffer, &writer.writer);
#endif
  return bytes;
}

static void trace_nothing(void) {
  CHECK(!*graphics.enabled && !*sound.enabled && !*source.enabled);
  PERFETTO_TE(graphics, PERFETTO_TE_INSTANT("never"));
  PERFETTO_TE(PERFETTO_TE_DYNAMIC_CATEGORY, PERFETTO_TE_INSTANT("never"),
              PERFETTO_TE_DYNAMIC_CATEGORY_STRING("dynamic"));
  PERFETTO_DS_TRACE(source, iterator) { CHECK(false); }
}

// A low-level event.
static void low_level(const char* name) {
  struct PerfettoTeTimestamp now = PerfettoTeGetTimestamp();
  if (!*graphics.enabled) return;
  for (struct PerfettoTeLlIterator it = PerfettoTeLlBeginSlowPath(&graphics, now); it.impl.ds.tracer != NULL;
       PerfettoTeLlNext(&graphics, now, &it)) {
    struct PerfettoDsRootTracePacket packet;
    PerfettoTeLlPacketBegin(&it, &packet);
    PerfettoTeLlWriteTimestamp(&packet.msg, &now);
    perfetto_protos_TracePacket_set_sequence_flags(
        &packet.msg, perfetto_protos_TracePacket_SEQ_NEEDS_INCREMENTAL_STATE);
    uint64_t iid;
    {
      struct PerfettoTeLlInternContext context;
      PerfettoTeLlInternContextInit(&context, it.impl.incr, &packet.msg);
      PerfettoTeLlInternRegisteredCat(&context, &graphics);
      iid = PerfettoTeLlInternEventName(&context, name);
      PerfettoTeLlInternContextDestroy(&context);
    }
    {
      struct perfetto_protos_TrackEvent event;
      perfetto_protos_TracePacket_begin_track_event(&packet.msg, &event);
      perfetto_protos_TrackEvent_set_type(&event, perfetto_protos_TrackEvent_TYPE_INSTANT);
      PerfettoTeLlWriteRegisteredCat(&event, &graphics);
      PerfettoTeLlWriteInternedEventName(&event, iid);
      perfetto_protos_TracePacket_end_track_event(&packet.msg, &event);
    }
    PerfettoTeLlPacketEnd(&it, &packet);
  }
}

static struct PerfettoTeRegisteredTrack queue;
static struct PerfettoTeRegisteredTrack temperature;

static void trace_events(void) {
  PERFETTO_TE(graphics, PERFETTO_TE_SLICE_BEGIN("frame"), PERFETTO_TE_ARG_UINT64("number", 7),
              PERFETTO_TE_ARG_STRING("text", "seven"), PERFETTO_TE_ARG_BOOL("yes", true),
              PERFETTO_TE_ARG_INT64("minus", -7), PERFETTO_TE_ARG_DOUBLE("half", 0.5),
              PERFETTO_TE_ARG_POINTER("where", 0x1234), PERFETTO_TE_FLOW(PerfettoTeGlobalFlow(99)));
  low_level("frame");
  low_level("low");
  PERFETTO_TE(graphics, PERFETTO_TE_INSTANT("low"), PERFETTO_TE_TERMINATING_FLOW(PerfettoTeGlobalFlow(99)));
  PERFETTO_TE(sound, PERFETTO_TE_INSTANT("never"));
  PERFETTO_TE(PERFETTO_TE_DYNAMIC_CATEGORY, PERFETTO_TE_INSTANT("made up"),
              PERFETTO_TE_DYNAMIC_CATEGORY_STRING("dynamic"));
  PERFETTO_TE(PERFETTO_TE_DYNAMIC_CATEGORY, PERFETTO_TE_INSTANT("never"),
              PERFETTO_TE_DYNAMIC_CATEGORY_STRING("other"));
  PERFETTO_TE(graphics, PERFETTO_TE_INSTANT("queued"), PERFETTO_TE_REGISTERED_TRACK(&queue));
  PERFETTO_TE(graphics, PERFETTO_TE_COUNTER(), PERFETTO_TE_REGISTERED_TRACK(&temperature),
              PERFETTO_TE_INT_COUNTER(79));
  PERFETTO_TE(graphics, PERFETTO_TE_COUNTER(),
              PERFETTO_TE_COUNTER_TRACK("load", PerfettoTeProcessTrackUuid()), PERFETTO_TE_DOUBLE_COUNTER(0.25));
  PERFETTO_TE(graphics, PERFETTO_TE_INSTANT("named"),
              PERFETTO_TE_NAMED_TRACK("lane", 3, PerfettoTeThreadTrackUuid()));
  PERFETTO_TE(graphics, PERFETTO_TE_INSTANT("nested"),
              PERFETTO_TE_NESTED_TRACKS(PERFETTO_TE_NESTED_TRACK_PROCESS(),
                                        PERFETTO_TE_NESTED_TRACK_NAMED("outer", 1),
                                        PERFETTO_TE_NESTED_TRACK_NAMED("inner", 2)));
  PERFETTO_TE(graphics, PERFETTO_TE_INSTANT("raw"),
              PERFETTO_TE_PROTO_FIELDS(PERFETTO_TE_PROTO_FIELD_NESTED(
                  perfetto_protos_TrackEvent_source_location_field_number, PERFETTO_TE_PROTO_FIELD_CSTR(2, "program.c"),
                  PERFETTO_TE_PROTO_FIELD_VARINT(4, 42))));
  PERFETTO_TE(graphics, PERFETTO_TE_SLICE_END(), PERFETTO_TE_FLUSH());
}

static void trace_packets(void) {
  PERFETTO_DS_TRACE(source, iterator) {
    void* locked = PerfettoDsImplGetInstanceLocked(source.impl, iterator.impl.inst_id);
    CHECK(locked == &context);
    CHECK(PerfettoDsImplGetInstanceLocked(source.impl, iterator.impl.inst_id) == &context);
    PerfettoDsImplReleaseInstanceLocked(source.impl, iterator.impl.inst_id);
    PerfettoDsImplReleaseInstanceLocked(source.impl, iterator.impl.inst_id);
    CHECK(PerfettoDsGetIncrementalState(&source, &iterator) == &state);
    CHECK(PerfettoDsGetCustomTls(&source, &iterator) == &state);
    // Trace points do not nest.
    PERFETTO_DS_TRACE(source, nested) { CHECK(false); }
    PERFETTO_TE(graphics, PERFETTO_TE_INSTANT("never"));

    struct PerfettoDsRootTracePacket packet;
    PerfettoDsTracerPacketBegin(&iterator, &packet);
    {
      struct perfetto_protos_TestEvent event;
      perfetto_protos_TracePacket_begin_for_testing(&packet.msg, &event);
      perfetto_protos_TestEvent_set_cstr_str(&event, "packet");
      {
        struct perfetto_protos_TestEvent_TestPayload payload;
        perfetto_protos_TestEvent_begin_payload(&event, &payload);
        for (int i = 0; i < 3000; i++) {
          perfetto_protos_TestEvent_TestPayload_set_cstr_str(&payload, "part of many");
        }
        perfetto_protos_TestEvent_end_payload(&event, &payload);
      }
      perfetto_protos_TestEvent_set_cstr_str(&event, "end");
      perfetto_protos_TracePacket_end_for_testing(&packet.msg, &event);
    }
    PerfettoDsTracerPacketEnd(&iterator, &packet);
#ifdef NEW_INTERFACE
    CHECK(PerfettoDsTracerImplGetDropCount(iterator.impl.tracer) == 0);
#endif
  }
}

static void* trace_all(void* unused) {
  trace_events();
  trace_packets();
  return unused;
}

int main(int count, char** arguments) {
  CHECK(count == 2);
  trace_nothing();
  struct PerfettoProducerInitArgs args = PERFETTO_PRODUCER_INIT_ARGS_INIT();
  args.backends = PERFETTO_BACKEND_IN_PROCESS;
  PerfettoProducerInit(args);
  CHECK(perfetto_te_process_track_uuid == 0);
  PerfettoTeInit();
  PerfettoTeInit();
  CHECK(perfetto_te_process_track_uuid != 0);
  CHECK(perfetto_te_any_categories != NULL && !*perfetto_te_any_categories_enabled);
  PERFETTO_TE_REGISTER_CATEGORIES(CATEGORIES);
  PerfettoTeNamedTrackRegister(&queue, "queue", 5, PerfettoTeProcessTrackUuid(), true);
  PerfettoTeCounterTrackRegister(&temperature, "temperature", PerfettoTeProcessTrackUuid(), true);

  struct PerfettoDsParams params = PerfettoDsParamsDefault();
  params.on_setup_cb = on_setup;
  params.on_start_cb = on_start;
  params.on_stop_cb = on_stop;
  params.on_destroy_cb = on_destroy;
  params.on_flush_cb = on_flush;
  params.on_create_tls_cb = make;
  params.on_delete_tls_cb = delete;
  params.on_create_incr_cb = make;
  params.on_delete_incr_cb = delete;
  params.on_clear_incr_cb = clear;
  params.user_arg = &setups;
  params.buffer_exhausted_policy = PERFETTO_DS_BUFFER_EXHAUSTED_POLICY_STALL_AND_ABORT;
  CHECK(PerfettoDsRegister(&source, "com.example.packets", params));
  trace_nothing();

  struct PerfettoTracingSessionImpl* session = PerfettoTracingSessionCreate(PERFETTO_BACKEND_IN_PROCESS);
  size_t size;
  void* config = make_config(&size);
  PerfettoTracingSessionSetup(session, config, size);
  free(config);
  PerfettoTracingSessionStartBlocking(session);
  CHECK(setups == 1 && starts == 1);
  CHECK(*graphics.enabled && !*sound.enabled && *source.enabled && *perfetto_te_any_categories_enabled);

  pthread_t thread;
  trace_all(NULL);
  CHECK(pthread_create(&thread, NULL, trace_all, NULL) == 0 && pthread_join(thread, NULL) == 0);
  CHECK(made == 4 && deleted == 2);

  CHECK(PerfettoTracingSessionFlushBlocking(session, 10000));
  CHECK(flushes >= 1);
  PerfettoTracingSessionStopBlocking(session);
  CHECK(stops == 1 && destroys == 1);
  CHECK(PerfettoDsImplGetInstanceLocked(source.impl, 0) == NULL);
  trace_nothing();

  FILE* file = fopen(arguments[1], "wb");
  CHECK(file != NULL);
  PerfettoTracingSessionReadTraceBlocking(session, append, file);
  CHECK(fclose(file) == 0);
  PerfettoTracingSessionDestroy(session);
  PERFETTO_TE_UNREGISTER_CATEGORIES(CATEGORIES);
  PerfettoTeRegisteredTrackUnregister(&queue);
  PerfettoTeRegisteredTrackUnregister(&temperature);
  return 0;
}
