// How a call's work is spread over threads, and their scratch memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

/// Does the tasks 0 .. n-1 on at most `threads` threads, the caller's among them, and returns when all are done.
///
/// Cores are shared with whatever else runs, and so are the threads of a team now and then without one. Nobody waits for
/// a helper that hasn't begun: the caller does all that nobody else takes. (An OpenMP team waits for each of its threads
/// in every region: with a busy neighbour that made a step ten times slower.) Each thread begins on a run of tasks of
/// its own, so that it reads memory in order, and then helps the others.
void spread(int threads, int64_t n, void (*task)(const void*, int64_t), const void* body);

template <class Body>
void spread(int threads, int64_t n, const Body& body) {
  spread(threads, n, [](const void* of, int64_t i) { (*(const Body*)of)(i); }, &body);
}

/// The part of 0 .. n-1 that is task `i` of `tasks` equal ones: [part(n, i, tasks), part(n, i + 1, tasks)).
inline int64_t part(int64_t n, int64_t i, int64_t tasks) { return n * i / tasks; }

/// Memory that a thread keeps from call to call; it only grows.
class Scratch {
 public:
  template <class T>
  T* get(int64_t count) {
    const size_t bytes = (size_t)(count * (int64_t)sizeof(T) + 63) / 64 * 64;
    if (bytes > size_) {
      memory_.reset(std::aligned_alloc(64, bytes));
      size_ = memory_ ? bytes : 0;
      if (!memory_) throw std::bad_alloc();
    }
    return (T*)memory_.get();
  }

 private:
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::unique_ptr<void, Free> memory_;
  size_t size_ = 0;
};
