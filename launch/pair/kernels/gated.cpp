#include <cstdint>

extern "C" void ws_gated(const float *__restrict x, const float *__restrict scale,
                         const float *__restrict shift, float *__restrict y, int64_t rows,
                         int64_t columns, double limit) {
  const float most = static_cast<float>(limit);
  for (int64_t i = 0; i < rows; ++i) {
    const float *in = x + i * columns;
    float *out = y + i * columns;
    for (int64_t j = 0; j < columns; ++j) {
      const float v = in[j] * scale[j] + shift[j];
      out[j] = (v < most ? v : most) * in[j];
    }
  }
}
