// A program of C++: operators new and delete in all their forms.
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

struct alignas(64) Wide {
  char bytes[640];
};

static void *volatile sink;

extern "C" __attribute__((noinline)) void leaked() {
  sink = new char[1000];
  sink = new (std::nothrow) char[500];
  sink = new Wide;
  sink = ::operator new(300);
}

extern "C" __attribute__((noinline)) void passing() {
  delete[] new char[1000];
  delete new Wide;
  std::unique_ptr<std::string> text(new std::string(400, 'x'));
  std::vector<long> numbers(100);
  numbers.resize(1000);
  try {
    throw std::runtime_error(*text);
  } catch (const std::exception &) {
  }
  ::operator delete(::operator new(64), std::size_t(64));
}

int main() {
  std::thread other([] { for (int at = 0; at < 50; at++) passing(); });
  for (int at = 0; at < 50; at++) passing();
  other.join();
  for (int at = 0; at < 10; at++) leaked();
}
