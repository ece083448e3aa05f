// Elementary functions that a compiler can vectorise: no branches, no tables, no calls.
//
// float: polynomials and rational functions fitted here to about one unit in the last place over the
// reduced range; each comment says which range and how good the fit is before rounding. double: the C library.
// NaN goes through every function; infinities give the limits.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace ws {

inline int32_t bits_of(float x) {
  int32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

inline float from_bits(int32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer in the low bits

// exp(r) = 1 + r + r^2 P(r) for |r| <= ln(2)/2; P fits to 1.2e-7.
inline float exp_poly(float r) {
  float p = 1.3901298598e-3f;
  p = p * r + 8.3632000402e-3f;
  p = p * r + 4.1666854229e-2f;
  p = p * r + 1.6666576962e-1f;
  p = p * r + 4.9999999550e-1f;
  return p;
}

// x = n ln(2) + r; gives r and, in `scale`, 2^(n-1). Results below 2^-125 become zero.
inline float exp_reduce(float x, float &scale) {
  const float t = x * 1.44269504f + kRound;
  const float n = t - kRound;
  scale = from_bits((bits_of(t) - bits_of(kRound) + 126) << 23);
  return (x - n * 0.693145752f) - n * 1.42860677e-6f;
}

inline float exp(float x) {
  float scale;
  const float r = exp_reduce(x, scale);
  const float y = (exp_poly(r) * (r * r) + (r + 1.0f)) * scale * 2.0f;
  const float high = x > 88.7228394f ? kInf : y;
  return x < -87.3365479f ? 0.0f : high;
}

inline float expm1(float x) {
  float scale;
  const float r = exp_reduce(x, scale);
  const float y = ((exp_poly(r) * (r * r) + r) * scale + (scale - 0.5f)) * 2.0f;
  const float high = x > 88.7228394f ? kInf : y;
  return x < -87.3365479f ? -1.0f : high;
}

inline float exp2(float x) {
  const float t = x + kRound;
  const float scale = from_bits((bits_of(t) - bits_of(kRound) + 126) << 23);
  const float r = (x - (t - kRound)) * 0.693147181f;
  const float y = (exp_poly(r) * (r * r) + (r + 1.0f)) * scale * 2.0f;
  const float high = x >= 128.0f ? kInf : y;
  return x < -126.0f ? 0.0f : high;
}

// log(1 + f) = f - f^2/2 + f^3 R(f) for 1 + f in [sqrt(1/2), sqrt(2)]; R fits to 4.1e-7.
// Returns log(m 2^e) without the e ln(2), and e.
inline float log_reduced(float x, float &exponent) {
  const int32_t bits = bits_of(x) - 0x3f3504f3;  // so that the mantissa starts at sqrt(1/2)
  exponent = static_cast<float>(bits >> 23);
  const float f = from_bits((bits & 0x007fffff) + 0x3f3504f3) - 1.0f;
  float p = -7.9741103068e-2f;
  p = p * f + 1.2655650911e-1f;
  p = p * f - 1.2989290832e-1f;
  p = p * f + 1.4209952085e-1f;
  p = p * f - 1.6641581024e-1f;
  p = p * f + 2.0001200751e-1f;
  p = p * f - 2.5000303928e-1f;
  p = p * f + 3.3333329945e-1f;
  const float square = f * f;
  return f + (p * f - 0.5f) * square;
}

inline float log(float x) {
  // Subnormal numbers are lifted into the normal range first.
  const bool tiny = x < 1.17549435e-38f;
  const float lifted = tiny ? x * 8388608.0f : x;
  float e;
  const float m = log_reduced(lifted, e);
  e = tiny ? e - 23.0f : e;
  const float y = (m + e * 1.42860677e-6f) + e * 0.693145752f;
  const float high = x >= kInf ? x : y;
  const float zero = x == 0.0f ? -kInf : high;
  return x < 0.0f ? std::numeric_limits<float>::quiet_NaN() : (x != x ? x : zero);
}

inline float log2(float x) { return log(x) * 1.44269504f; }
inline float log10(float x) { return log(x) * 0.434294482f; }

inline float log1p(float x) {
  const float u = 1.0f + x;
  // What rounding took away from 1 + x, to first order.
  const float lost = (x - (u - 1.0f)) / u;
  const float y = log(u) + lost;
  const float ends = (u == kInf || u <= 0.0f) ? log(u) : y;
  return x == 0.0f ? x : ends;
}

// tanh(x) = x P(x^2) / Q(x^2) for |x| <= 9.02, where it is 1 to the last bit; fits to 2.1e-8.
inline float tanh(float x) {
  const float low = x < -9.02f ? -9.02f : x;
  const float c = low > 9.02f ? 9.02f : low;
  const float t = c * c;
  float p = 1.3319325274e-8f;
  p = p * t + 2.0583704339e-5f;
  p = p * t + 3.4940499833e-3f;
  p = p * t + 1.3379731592e-1f;
  p = p * t + 9.9999997906e-1f;
  float q = 7.7621348242e-7f;
  q = q * t + 3.2831167227e-4f;
  q = q * t + 2.5871133916e-2f;
  q = q * t + 4.6713046863e-1f;
  q = q * t + 1.0f;
  return c * p / q;
}

// erf(x) = x P(x^2) / Q(x^2) for |x| <= 3.92, where it is 1 to the last bit; fits to 1.9e-8.
inline float erf(float x) {
  const float low = x < -3.92f ? -3.92f : x;
  const float c = low > 3.92f ? 3.92f : low;
  const float t = c * c;
  float p = 2.0500272775e-6f;
  p = p * t + 2.8487551175e-4f;
  p = p * t + 3.7655377107e-3f;
  p = p * t + 5.2748479263e-2f;
  p = p * t + 1.9040535452e-1f;
  p = p * t + 1.1283791462e+0f;
  float q = 3.8090710963e-5f;
  q = q * t + 1.1625057685e-3f;
  q = q * t + 1.4969069249e-2f;
  q = q * t + 1.1410856196e-1f;
  q = q * t + 5.0207509435e-1f;
  q = q * t + 1.0f;
  return c * p / q;
}

inline float sigmoid(float x) { return 1.0f / (1.0f + exp(-x)); }
inline float sqrt(float x) { return std::sqrt(x); }
inline float rsqrt(float x) { return 1.0f / std::sqrt(x); }
inline float pow(float x, float y) { return std::pow(x, y); }
inline float sin(float x) { return std::sin(x); }
inline float cos(float x) { return std::cos(x); }

inline double exp(double x) { return std::exp(x); }
inline double expm1(double x) { return std::expm1(x); }
inline double exp2(double x) { return std::exp2(x); }
inline double log(double x) { return std::log(x); }
inline double log2(double x) { return std::log2(x); }
inline double log10(double x) { return std::log10(x); }
inline double log1p(double x) { return std::log1p(x); }
inline double tanh(double x) { return std::tanh(x); }
inline double erf(double x) { return std::erf(x); }
inline double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
inline double sqrt(double x) { return std::sqrt(x); }
inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
inline double pow(double x, double y) { return std::pow(x, y); }
inline double sin(double x) { return std::sin(x); }
inline double cos(double x) { return std::cos(x); }

template <typename T>
inline T floor(T x) { return std::floor(x); }
template <typename T>
inline T ceil(T x) { return std::ceil(x); }
template <typename T>
inline T trunc(T x) { return std::trunc(x); }
template <typename T>
inline T nearest(T x) { return std::nearbyint(x); }
template <typename T>
inline T absolute(T x) { return x < T(0) ? -x : (x == T(0) ? T(0) : x); }
template <typename T>
inline T maximum(T a, T b) { return (a > b || a != a) ? a : b; }
template <typename T>
inline T minimum(T a, T b) { return (a < b || a != a) ? a : b; }
template <typename T>
inline T sign(T x) { return x > T(0) ? T(1) : (x < T(0) ? T(-1) : T(0)); }
template <typename T>
inline bool isinf(T x) {
  return x == std::numeric_limits<T>::infinity() || x == -std::numeric_limits<T>::infinity();
}

}  // namespace ws
