// Stores that go past the caches. Apart from ws_math.h, since the intrinsics take longest to compile.
#pragma once

#include <cstdint>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace ws {

// Copies a finished tile past the caches: the reader comes later, and the line need not be fetched first.
template <typename T>
inline void stream_out(T *to, const T *from, int64_t count) {
  int64_t i = 0;
#if defined(__AVX512F__) || defined(__AVX2__) || defined(__SSE2__)
#if defined(__AVX512F__)
  constexpr int64_t kBytes = 64;
#elif defined(__AVX2__)
  constexpr int64_t kBytes = 32;
#else
  constexpr int64_t kBytes = 16;
#endif
  constexpr int64_t kStep = kBytes / static_cast<int64_t>(sizeof(T));
  while (i < count && (reinterpret_cast<uintptr_t>(to + i) % kBytes) != 0) {
    to[i] = from[i];
    ++i;
  }
  for (; i + kStep <= count; i += kStep) {
#if defined(__AVX512F__)
    _mm512_stream_si512(reinterpret_cast<__m512i *>(to + i), _mm512_loadu_si512(from + i));
#elif defined(__AVX2__)
    _mm256_stream_si256(reinterpret_cast<__m256i *>(to + i),
                        _mm256_loadu_si256(reinterpret_cast<const __m256i *>(from + i)));
#else
    _mm_stream_si128(reinterpret_cast<__m128i *>(to + i),
                     _mm_loadu_si128(reinterpret_cast<const __m128i *>(from + i)));
#endif
  }
#endif
  for (; i < count; ++i) to[i] = from[i];
}

// Streaming stores are weakly ordered; a fence makes them visible before the launcher returns.
inline void stream_fence() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

}  // namespace ws
