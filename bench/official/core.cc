// The official core as a whole, in one file as the official SDK ships it, and the parts of it that the
// benchmarks run behind the functions of core.h. Loops are here so that no call between the languages
// is measured.

#include PERFETTO_CORE

#include "core.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace {

using perfetto::TraceBuffer;

struct Buffer {
  std::unique_ptr<TraceBuffer> buffer;
  std::vector<perfetto::ChunkID> next_ids;
  size_t next_chunk = 0;
};

// The address is all the optimiser may not see through.
template <typename T>
void Keep(T const& value) {
  asm volatile("" : : "r,m"(value) : "memory");
}

// The service's end of a producer's connection, as far as chunks go.
class Freeing : public perfetto::ProducerEndpoint {
 public:
  void Attach(perfetto::SharedMemoryABI* abi) { abi_ = abi; }

  void CommitData(const perfetto::CommitDataRequest& request, CommitDataCallback callback) override {
    for (const auto& move : request.chunks_to_move()) {
      auto chunk = abi_->TryAcquireChunkForReading(move.page(), move.chunk());
      if (chunk.is_valid())
        abi_->ReleaseChunkAsFree(std::move(chunk));
    }
    if (callback)
      callback();
  }

  void Disconnect() override {}
  void RegisterDataSource(const perfetto::DataSourceDescriptor&) override {}
  void UpdateDataSource(const perfetto::DataSourceDescriptor&) override {}
  void UnregisterDataSource(const std::string&) override {}
  void RegisterTraceWriter(uint32_t, uint32_t) override {}
  void UnregisterTraceWriter(uint32_t) override {}
  perfetto::SharedMemory* shared_memory() const override { return nullptr; }
  size_t shared_buffer_page_size_kb() const override { return 4; }
  std::unique_ptr<perfetto::TraceWriter> CreateTraceWriter(perfetto::BufferID,
                                                           perfetto::BufferExhaustedPolicy) override {
    return nullptr;
  }
  perfetto::SharedMemoryArbiter* MaybeSharedMemoryArbiter() override { return nullptr; }
  bool IsShmemProvidedByProducer() const override { return false; }
  void NotifyFlushComplete(perfetto::FlushRequestID) override {}
  void NotifyDataSourceStarted(perfetto::DataSourceInstanceID) override {}
  void NotifyDataSourceStopped(perfetto::DataSourceInstanceID) override {}
  void ActivateTriggers(const std::vector<std::string>&) override {}
  void Sync(std::function<void()> callback) override { callback(); }

 private:
  perfetto::SharedMemoryABI* abi_ = nullptr;
};

// Lives on its own thread, as a producer's connection does.
class Producer {
 public:
  explicit Producer(size_t memory_size)
      : memory_(std::move(perfetto::PosixSharedMemory::Create(memory_size).value())) {
    std::promise<void> ready;
    thread_ = std::thread([this, memory_size, &ready] {
      perfetto::base::UnixTaskRunner task_runner;
      task_runner_ = &task_runner;
      arbiter_ = std::make_unique<perfetto::SharedMemoryArbiterImpl>(
          memory_->start(), memory_size, perfetto::SharedMemoryABI::ShmemMode::kDefault, 4096,
          &endpoint_, &task_runner);
      endpoint_.Attach(arbiter_->shmem_abi_for_testing());
      ready.set_value();
      task_runner.Run();
      arbiter_.reset();
    });
    ready.get_future().wait();
  }

  ~Producer() {
    task_runner_->PostTask([this] { task_runner_->Quit(); });
    thread_.join();
  }

  void Write(size_t packets, const std::string& text) {
    auto writer = arbiter_->CreateTraceWriter(1, perfetto::BufferExhaustedPolicy::kStall);
    for (size_t i = 0; i < packets; i++) {
      auto packet = writer->NewTracePacket();
      packet->set_timestamp(i);
      packet->set_for_testing()->set_str(text);
    }
    writer->Flush();
  }

 private:
  std::unique_ptr<perfetto::PosixSharedMemory> memory_;
  Freeing endpoint_;
  perfetto::base::UnixTaskRunner* task_runner_ = nullptr;
  std::unique_ptr<perfetto::SharedMemoryArbiterImpl> arbiter_;
  std::thread thread_;
};

}  // namespace

void* official_buffer_new(int engine, size_t size) {
  auto made = std::make_unique<Buffer>();
  if (engine == 1)
    made->buffer = perfetto::TraceBufferV1::Create(size);
  else
    made->buffer = perfetto::TraceBufferV2::Create(size);
  if (!made->buffer)
    abort();
  return made.release();
}

void official_buffer_free(void* buffer) {
  delete static_cast<Buffer*>(buffer);
}

void official_buffer_write(void* buffer, const OfficialChunk* chunks, size_t count, size_t writers,
                           size_t times) {
  auto* state = static_cast<Buffer*>(buffer);
  if (state->next_ids.size() < writers)
    state->next_ids.resize(writers);
  for (size_t i = 0; i < times; i++) {
    const OfficialChunk& chunk = chunks[state->next_chunk++ % count];
    size_t writer = i % writers;
    Keep(chunk.data);
    state->buffer->CopyChunkUntrusted(
        static_cast<perfetto::ProducerID>(writer + 1),
        perfetto::ClientIdentity(static_cast<uid_t>(1000 + writer), static_cast<pid_t>(100 + writer)),
        static_cast<perfetto::WriterID>(writer + 1), state->next_ids[writer]++, chunk.fragments,
        /*chunk_flags=*/0, /*chunk_complete=*/true, chunk.data, chunk.size);
  }
}

size_t official_buffer_read(void* buffer) {
  TraceBuffer& from = *static_cast<Buffer*>(buffer)->buffer;
  TraceBuffer::PacketSequenceProperties properties;
  uint32_t dropped;
  size_t bytes = 0;
  from.BeginRead();
  for (;;) {
    perfetto::TracePacket packet;
    if (!from.ReadNextTracePacket(&packet, &properties, &dropped))
      return bytes;
    for (const auto& slice : packet.slices())
      bytes += slice.size;
  }
}

size_t official_buffer_patch(void* buffer, uint32_t chunk, size_t offset, size_t times) {
  TraceBuffer& into = *static_cast<Buffer*>(buffer)->buffer;
  TraceBuffer::Patch patch{offset, {{1, 2, 3, 4}}};
  size_t found = 0;
  for (size_t i = 0; i < times; i++)
    found += into.TryPatchChunkContents(1, 1, chunk, &patch, 1, /*other_patches_pending=*/false);
  return found;
}

void* official_packet_new(const OfficialSlice* slices, size_t count) {
  auto made = std::make_unique<perfetto::Slices>();
  for (size_t i = 0; i < count; i++) {
    perfetto::Slice slice = perfetto::Slice::Allocate(slices[i].size);
    memcpy(slice.own_data(), slices[i].data, slices[i].size);
    made->emplace_back(std::move(slice));
  }
  return made.release();
}

void official_packet_free(void* packet) {
  delete static_cast<perfetto::Slices*>(packet);
}

bool official_packet_validate(const void* packet, size_t times) {
  const auto& slices = *static_cast<const perfetto::Slices*>(packet);
  bool valid = true;
  for (size_t i = 0; i < times; i++) {
    valid &= perfetto::PacketStreamValidator::Validate(slices);
    Keep(valid);
  }
  return valid;
}

void* official_producer_new(size_t memory_size) {
  return new Producer(memory_size);
}

void official_producer_free(void* producer) {
  delete static_cast<Producer*>(producer);
}

void official_producer_write(void* producer, size_t threads, size_t packets, size_t size) {
  auto* writing = static_cast<Producer*>(producer);
  std::string text(size, 'x');
  std::vector<std::thread> running;
  for (size_t i = 0; i < threads; i++)
    running.emplace_back([&] { writing->Write(packets, text); });
  for (std::thread& thread : running)
    thread.join();
}

int official_service_run(const char* producer, const char* consumer) {
  // The service does not take over the sockets of one that went: the official daemon's main function
  // does.
  remove(producer);
  remove(consumer);
  perfetto::base::UnixTaskRunner task_runner;
  auto host = perfetto::ServiceIPCHost::CreateInstance(&task_runner);
  if (!host->Start(producer, consumer))
    return 1;
  puts("ok");
  fflush(stdout);
  task_runner.Run();
  return 0;
}
