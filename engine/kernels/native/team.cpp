#include "team.h"

#include <immintrin.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

namespace {

constexpr int MOST_THREADS = 256;
constexpr auto HELPER_SPINS = std::chrono::microseconds(100);  // bridges what lies between two calls of a step
constexpr int CALLER_SPINS = 20000;  // some 100 us; then whoever is in mid-task gets the core

class Team {
 public:
  void run(int threads, int64_t n, void (*task)(const void*, int64_t), const void* body) {
    std::unique_lock alone(busy_, std::try_to_lock);
    threads = (int)std::min<int64_t>(std::min(threads, MOST_THREADS), n);
    if (threads <= 1 || !alone) {
      for (int64_t i = 0; i < n; ++i) task(body, i);
      return;
    }
    while ((int)helpers_.size() < threads - 1) {
      helpers_.emplace_back([this, thread = (int)helpers_.size() + 1] { help(thread); }).detach();
    }
    task_ = task;
    body_ = body;
    done_.store(0, std::memory_order_relaxed);
    threads_.store(threads, std::memory_order_relaxed);
    const uint32_t call = call_.load(std::memory_order_relaxed) + 1;
    for (int t = 0; t < threads; ++t) {
      runs_[t].end.store(n * (t + 1) / threads, std::memory_order_relaxed);
      runs_[t].next.store(stamped(call, n * t / threads), std::memory_order_release);
    }
    call_.store(call, std::memory_order_release);
    call_.notify_all();
    work(call, 0, threads);
    for (int spins = 0; done_.load(std::memory_order_acquire) < n;) {
      if (++spins < CALLER_SPINS) _mm_pause();
      else std::this_thread::yield();
    }
  }

 private:
  /// The next task of a run, stamped with the call it belongs to: whoever comes late takes nothing of a later call.
  struct alignas(64) Run {
    std::atomic<uint64_t> next{0};
    std::atomic<int64_t> end{0};
  };

  static uint64_t stamped(uint32_t call, int64_t task) { return (uint64_t)call << 32 | (uint64_t)task; }

  void work(uint32_t call, int thread, int threads) {
    for (int i = 0; i < threads; ++i) {
      Run& run = runs_[(thread + i) % threads];
      uint64_t next = run.next.load(std::memory_order_acquire);
      while ((uint32_t)(next >> 32) == call && (int64_t)(uint32_t)next < run.end.load(std::memory_order_relaxed)) {
        if (!run.next.compare_exchange_weak(next, next + 1, std::memory_order_acq_rel, std::memory_order_acquire)) continue;
        // Taken: the call can't end before this is done, and so task_ and body_ are its own.
        task_(body_, (int64_t)(uint32_t)next);
        done_.fetch_add(1, std::memory_order_release);
        next = run.next.load(std::memory_order_acquire);
      }
    }
  }

  void help(int thread) {
    for (uint32_t seen = 0;;) {
      const auto asleep = std::chrono::steady_clock::now() + HELPER_SPINS;
      uint32_t call;
      while ((call = call_.load(std::memory_order_acquire)) == seen) {
        for (int i = 0; i < 64; ++i) _mm_pause();
        if (std::chrono::steady_clock::now() > asleep) call_.wait(seen, std::memory_order_acquire);
      }
      seen = call;
      const int threads = threads_.load(std::memory_order_relaxed);
      if (thread < threads) work(call, thread, threads);
    }
  }

  std::mutex busy_;
  std::vector<std::thread> helpers_;
  std::atomic<uint32_t> call_{0};
  std::atomic<int> threads_{0};
  std::atomic<int64_t> done_{0};
  void (*task_)(const void*, int64_t) = nullptr;
  const void* body_ = nullptr;
  Run runs_[MOST_THREADS];
};

}  // namespace

void spread(int threads, int64_t n, void (*task)(const void*, int64_t), const void* body) {
  static Team* team = new Team;  // its helpers outlive every static object
  team->run(threads, n, task, body);
}
