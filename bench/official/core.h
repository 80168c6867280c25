// What the benchmarks need of the official core, in C.
#pragma once

#include <stddef.h>
#include <stdint.h>

extern "C" {

// A chunk as a producer leaves it: packets with their lengths, one after another.
struct OfficialChunk {
  const uint8_t* data;
  size_t size;
  uint16_t fragments;
};

struct OfficialSlice {
  const uint8_t* data;
  size_t size;
};

// A central trace buffer. `engine` is 1 or 2.
void* official_buffer_new(int engine, size_t size);
void official_buffer_free(void* buffer);
// Copies `times` chunks into it, one after another of `chunks`, in turn for writers 1 to `writers`.
// Chunk numbers go on where the last call ended.
void official_buffer_write(void* buffer, const OfficialChunk* chunks, size_t count, size_t writers,
                           size_t times);
// Reads all packets and returns how many bytes there were.
size_t official_buffer_read(void* buffer);
// Patches a chunk `times` times and returns how often it was found.
size_t official_buffer_patch(void* buffer, uint32_t chunk, size_t offset, size_t times);

void* official_packet_new(const OfficialSlice* slices, size_t count);
void official_packet_free(void* packet);
// Whether the validator takes it, `times` times.
bool official_packet_validate(const void* packet, size_t times);

// The shared memory of a producer with the arbiter over it, and a thread in the service's place that
// frees what is committed.
void* official_producer_new(size_t memory_size);
void official_producer_free(void* producer);
// `threads` threads write `packets` packets with a text of `size` bytes each.
void official_producer_write(void* producer, size_t threads, size_t packets, size_t size);

// Serves on the two sockets until the process is killed.
int official_service_run(const char* producer, const char* consumer);
}
