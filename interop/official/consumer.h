// Upstream's consumer endpoint, which its `perfetto` command uses. It supports
// the whole consumer port, unlike the SDK's tracing session.

#ifndef INTEROP_CONSUMER_H_
#define INTEROP_CONSUMER_H_

#include <fcntl.h>

#include <deque>
#include <memory>

#include "serve.h"

namespace interop {

class Consumer : public perfetto::Consumer {
 public:
  Consumer() {
    endpoint_ = perfetto::ConsumerIPCClient::Connect(
        getenv("PERFETTO_CONSUMER_SOCK_NAME"), this, &runner_);
    Wait([this] { return connected_ || gone_; });
    if (connected_)
      endpoint_->ObserveEvents(2 | 4);  // All started; clone triggers.
  }

  std::string Run(const Words& words, std::string* error) {
    error_ = error;
    const std::string& name = words.empty() ? "" : words[0];
    size_t args = words.size() - 1;
    if (gone_ && name != "await-end")
      return Fail("the service is gone");
    if (name == "start" && (args == 1 || args == 2)) {
      Enable(words);
      return Wait([this] { return all_started_ || ended_; }), EndedEarly();
    }
    if (name == "enable" && (args == 1 || args == 2)) {
      Enable(words);
      return RoundTrip();
    }
    if (name == "await-started")
      return Wait([this] { return all_started_ || ended_; }), EndedEarly();
    if (name == "start-deferred") {
      endpoint_->StartTracing();
      return Wait([this] { return all_started_ || ended_; }), EndedEarly();
    }
    if (name == "change" && args == 1) {
      endpoint_->ChangeTraceConfig(Config(words[1]));
      return RoundTrip();
    }
    if (name == "flush")
      return Flush();
    if (name == "stop")
      endpoint_->DisableTracing();
    if (name == "stop" || name == "await-end") {
      Wait([this] { return ended_ || gone_; });
      return end_error_;
    }
    if (name == "read" && args == 1)
      return Read(words[1]);
    if (name == "end") {
      endpoint_.reset();
      return "";
    }
    if (name == "await-clone-trigger") {
      Wait([this] { return !clone_triggers_.empty(); });
      if (clone_triggers_.empty())
        return "";
      std::string hit = clone_triggers_.front();
      clone_triggers_.pop_front();
      return hit;
    }
    if (name == "clone" && (args == 1 || args == 2))
      return Clone(words);
    if (name == "detach" && args == 1) {
      endpoint_->Detach(words[1]);
      return Answer();
    }
    if (name == "attach" && args == 1) {
      endpoint_->Attach(words[1]);
      return Answer();
    }
    if (name == "sessions")
      return Sessions();
    return Fail("unknown command: " + name);
  }

 private:
  std::string Fail(const std::string& why) {
    if (error_->empty())
      *error_ = why;
    return "";
  }

  // Runs the event loop until the condition is true.
  template <typename Condition>
  void Wait(Condition condition) {
    auto alive = std::make_shared<bool>(true);
    bool late = false;
    runner_.PostDelayedTask(
        [this, alive, &late] {
          if (*alive) {
            late = true;
            runner_.Quit();
          }
        },
        kPatienceMs);
    while (!condition() && !late)
      runner_.Run();
    *alive = false;
    if (late && error_)
      Fail("no answer");
  }

  static perfetto::TraceConfig Config(const std::string& path) {
    perfetto::TraceConfig config;
    config.ParseFromString(ReadFile(path));
    return config;
  }

  static perfetto::base::ScopedFile Output(const Words& words, size_t index) {
    if (index >= words.size())
      return perfetto::base::ScopedFile();
    return perfetto::base::OpenFile(words[index], O_RDWR | O_CREAT | O_TRUNC,
                                    0600);
  }

  void Enable(const Words& words) {
    all_started_ = ended_ = false;
    endpoint_->EnableTracing(Config(words[1]), Output(words, 2));
  }

  std::string EndedEarly() {
    return ended_ || gone_ ? Fail("the session ended: " + end_error_) : "";
  }

  // The service has received all earlier messages.
  std::string RoundTrip() {
    bool done = false;
    endpoint_->QueryCapabilities(
        [&](const perfetto::TracingServiceCapabilities&) { Done(&done); });
    Wait([&] { return done || gone_; });
    return "";
  }

  std::string Flush() {
    bool done = false, flushed = false;
    endpoint_->Flush(
        20000,
        [&](bool success) {
          flushed = success;
          Done(&done);
        },
        perfetto::FlushFlags());
    Wait([&] { return done || gone_; });
    return flushed ? "true" : "false";
  }

  std::string Read(const std::string& path) {
    data_.clear();
    read_all_ = false;
    endpoint_->ReadBuffers();
    Wait([this] { return read_all_ || gone_; });
    std::ofstream(path, std::ios::binary) << data_;
    return std::to_string(data_.size());
  }

  std::string Clone(const Words& words) {
    perfetto::TracingService::ConsumerEndpoint::CloneSessionArgs args;
    char* end = nullptr;
    args.tsid = strtoull(words[1].c_str(), &end, 10);
    if (*end) {
      args.tsid = 0;
      args.unique_session_name = words[1];
    }
    args.output_file_fd = Output(words, 2);
    answered_ = false;
    endpoint_->CloneSession(std::move(args));
    Wait([this] { return answered_ || gone_; });
    return answer_;
  }

  std::string Answer() {
    answered_ = false;
    Wait([this] { return answered_ || gone_; });
    return answer_;
  }

  std::string Sessions() {
    bool done = false;
    std::string sessions;
    endpoint_->QueryServiceState(
        {}, [&](bool, const perfetto::TracingServiceState& state) {
          for (const auto& session : state.tracing_sessions()) {
            sessions += std::to_string(session.id()) + ":" + session.state() +
                        ":" + session.unique_session_name() + " ";
          }
          Done(&done);
        });
    Wait([&] { return done || gone_; });
    return sessions;
  }

  void Done(bool* what) {
    *what = true;
    runner_.Quit();
  }

  void Answered(const std::string& answer) {
    answer_ = answer;
    Done(&answered_);
  }

  // perfetto::Consumer:
  void OnConnect() override { Done(&connected_); }
  void OnDisconnect() override { Done(&gone_); }
  void OnTracingDisabled(const std::string& error) override {
    end_error_ = error;
    Done(&ended_);
  }
  void OnTraceData(std::vector<perfetto::TracePacket> packets,
                   bool has_more) override {
    for (perfetto::TracePacket& packet : packets) {
      auto [preamble, size] = packet.GetProtoPreamble();
      data_.append(preamble, size);
      for (const perfetto::Slice& slice : packet.slices())
        data_.append(static_cast<const char*>(slice.start), slice.size);
    }
    if (!has_more)
      Done(&read_all_);
  }
  void OnDetach(bool success) override { Answered(success ? "true" : "false"); }
  void OnAttach(bool success, const perfetto::TraceConfig&) override {
    Answered(success ? "true" : "false");
  }
  void OnTraceStats(bool, const perfetto::TraceStats&) override {}
  void OnObservableEvents(const perfetto::ObservableEvents& events) override {
    if (events.all_data_sources_started())
      Done(&all_started_);
    if (events.has_clone_trigger_hit()) {
      const auto& hit = events.clone_trigger_hit();
      clone_triggers_.push_back(std::to_string(hit.tracing_session_id()) + " " +
                                hit.trigger_name());
      runner_.Quit();
    }
  }
  void OnSessionCloned(const OnSessionClonedArgs& args) override {
    if (!args.success) {
      Fail(args.error);
      return Answered("");
    }
    Answered(std::to_string(args.uuid.lsb()) + " " +
             std::to_string(args.uuid.msb()) +
             (args.was_write_into_file ? " file" : ""));
  }

  perfetto::base::UnixTaskRunner runner_;
  std::unique_ptr<perfetto::TracingService::ConsumerEndpoint> endpoint_;
  std::string* error_ = nullptr;
  bool connected_ = false;
  bool gone_ = false;
  bool all_started_ = false;
  bool ended_ = false;
  std::string end_error_;
  bool answered_ = false;
  std::string answer_;
  bool read_all_ = false;
  std::string data_;
  std::deque<std::string> clone_triggers_;
};

}  // namespace interop

#endif  // INTEROP_CONSUMER_H_
