// The line protocol of the scenarios (see driver.rs) for programs in C++.

#ifndef INTEROP_SERVE_H_
#define INTEROP_SERVE_H_

#include <unistd.h>

#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

namespace interop {

// The time limit of commands.
constexpr uint32_t kPatienceMs = 60000;

using Words = std::vector<std::string>;

inline std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// Executes the commands on standard input until its end.
template <typename Role>
int Serve(Role&& role) {
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream stream(line);
    Words words{std::istream_iterator<std::string>(stream), {}};
    std::string error;
    std::string result = role.Run(words, &error);
    std::cout << (error.empty() ? "ok " + result : "error " + error)
              << std::endl;
  }
  // Skips the usual exit, because threads of the core are still running.
  _exit(0);
}

}  // namespace interop

#endif  // INTEROP_SERVE_H_
