// A program that records before a session exists: startup tracing of the
// C++ SDK, which provides its own shared memory to the service.

#ifndef INTEROP_STARTUP_H_
#define INTEROP_STARTUP_H_

#include <condition_variable>
#include <memory>
#include <mutex>

#include "serve.h"

namespace interop {

class Packets : public perfetto::DataSource<Packets> {
 public:
  constexpr static perfetto::BufferExhaustedPolicy kBufferExhaustedPolicy =
      perfetto::BufferExhaustedPolicy::kStall;
  void OnSetup(const SetupArgs&) override {}
  void OnStart(const StartArgs&) override {}
  void OnStop(const StopArgs&) override {}
};

class Startup {
 public:
  Startup() {
    perfetto::TracingInitArgs args;
    args.backends = perfetto::kSystemBackend;
    perfetto::Tracing::Initialize(args);
    perfetto::DataSourceDescriptor descriptor;
    descriptor.set_name("ferretto.interop.packets");
    Packets::Register(descriptor);
  }

  std::string Run(const Words& words, std::string* error) {
    const std::string& name = words.empty() ? "" : words[0];
    // Starts the data sources of a config with its own memory, and returns
    // their number.
    if (name == "setup" && words.size() == 2) {
      perfetto::Tracing::SetupStartupTracingOpts options;
      options.backend = perfetto::kSystemBackend;
      options.timeout_ms = kPatienceMs;
      options.on_adopted = [this] { Set(&adopted_); };
      int started = 0;
      options.on_setup =
          [&started](
              perfetto::Tracing::OnStartupTracingSetupCallbackArgs setup) {
            started = setup.num_data_sources_started;
          };
      perfetto::TraceConfig config;
      config.ParseFromString(ReadFile(words[1]));
      session_ = perfetto::Tracing::SetupStartupTracingBlocking(
          config, std::move(options));
      return std::to_string(started);
    }
    if (name == "numbers" && words.size() == 3) {
      Write(std::stoul(words[1]), std::stoul(words[2]));
      return "";
    }
    // Waits until a session has adopted the startup tracing.
    if (name == "await-adopted")
      return Await(&adopted_, error);
    // Waits until the service has received the written data.
    if (name == "commit") {
      Packets::Trace([this](Packets::TraceContext context) {
        context.Flush([this] { Set(&committed_); });
      });
      return Await(&committed_, error);
    }
    *error = "unknown command: " + name;
    return "";
  }

 private:
  static void Write(size_t from, size_t count) {
    Packets::Trace([&](Packets::TraceContext context) {
      for (size_t number = from; number < from + count; number++) {
        auto packet = context.NewTracePacket();
        packet->set_timestamp(1);
        packet->set_for_testing()->set_str(std::to_string(number));
      }
    });
  }

  void Set(bool* what) {
    std::lock_guard<std::mutex> lock(mutex_);
    *what = true;
    changed_.notify_all();
  }

  std::string Await(bool* what, std::string* error) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::milliseconds(kPatienceMs),
                           [what] { return *what; }))
      *error = "that does not happen";
    *what = false;
    return "";
  }

  std::unique_ptr<perfetto::StartupTracingSession> session_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool adopted_ = false;
  bool committed_ = false;
};

}  // namespace interop

PERFETTO_DECLARE_DATA_SOURCE_STATIC_MEMBERS(interop::Packets);
PERFETTO_DEFINE_DATA_SOURCE_STATIC_MEMBERS(interop::Packets);

#endif  // INTEROP_STARTUP_H_
