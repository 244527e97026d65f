/* A gate after attention, before its projection: out_c = s(z_g) a_c for attention's output a, where
   channel c belongs to gate g, and s(z) = 1 / (1 + exp(-z)).

   Backward, from dout: da_c = s(z_g) dout_c
     dz_g = (1 - s(z_g)) sum_{c of g} dout_c out_c,  since s' = s (1 - s): it needs no a

   With one gate for each head or for each channel. z is a linear function of what the sub-layer
   reads: further columns of c_attn. Qiu et al. 2025 (arXiv:2505.06708), the gate G1, headwise and
   elementwise, and the authors' code, where the gates are columns of the weight of q too. */
#include "model/layer/gate.h"
#include "model/math/profile.h"
#include "model/math/reduce.h"
#include "model/math/vecmath.h"

void gate_forward(const struct gate *gate, size_t M, real *out, const real *in) {
    const size_t size = gate->G ? gate->C / gate->G : 0;
    const real *z = in + gate->row - gate->G;
    for (size_t m = 0; m < M && size; m++, z += gate->row)
        for (size_t g = 0; g < gate->G; g++, out += size) {
            const real s = sigmoid_real(z[g]);
#pragma omp simd
            for (size_t c = 0; c < size; c++) out[c] *= s;
        }
    profile_lap(PROFILE_ELEMENTWISE);
}

void gate_backward(const struct gate *gate, size_t M, real *dout, real *din, const real *out,
                   const real *in) {
    const size_t size = gate->G ? gate->C / gate->G : 0, at = gate->row - gate->G;
    const real *z = in + at;
    real *dz = din + at;
    for (size_t m = 0; m < M && size; m++, z += gate->row, dz += gate->row)
        for (size_t g = 0; g < gate->G; g++, out += size, dout += size) {
            const real s = sigmoid_real(z[g]);
            dz[g] = (1 - s) * row_dot(size, dout, out);
#pragma omp simd
            for (size_t c = 0; c < size; c++) dout[c] *= s;
        }
    profile_lap(PROFILE_ELEMENTWISE);
}
