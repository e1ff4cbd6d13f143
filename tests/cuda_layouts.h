/* cuda_layouts.h - ldmatrix and mma.sync a second time, from another source

   tests/cuda_host.h says who holds which number of a fragment in the words of NVIDIA's PTX manual, and so do
   the kernels: a passage that both misread would pass every test. Here the same instructions are made of the
   layouts that CUTLASS states for its own kernels, which run on the hardware (include/cute/atom/
   mma_traits_sm80.hpp and copy_traits_sm75.hpp, commit 7107b055). cuda_host.h includes this file in the place of
   its own statement where MMIX_CUDA_LAYOUTS is defined; nothing of its own but the meeting of a warp's lanes
   and the sum of a product's terms is used.

   A layout maps an index to a place. The index is split into coordinates, the first running fastest, one for
   each axis of `shape`; the place is the sum of coordinate times stride. CUTLASS gives two layouts for each
   fragment, of the thread and of the value that it holds, and a number's place is the sum of both:

       A (16, K): row + 16 · column      B (K, 8): column + 8 · row      C (16, 8): row + 16 · column */
struct cuda_layout {
    unsigned axes, shape[4], stride[4];
    unsigned at(unsigned index) const
    {
        unsigned place = 0;
        for (unsigned axis = 0; axis < axes; axis++) {
            place += index % shape[axis] * stride[axis];
            index /= shape[axis];
        }
        return place;
    }
};
/* m16n8k16 of bf16: 8 values of A, 4 of B, two in a register, the first in its lower half. */
static const cuda_layout cuda_bf16_a_thread = { 2, { 4, 8 }, { 32, 1 } };
static const cuda_layout cuda_bf16_a_value = { 3, { 2, 2, 2 }, { 16, 8, 128 } };
static const cuda_layout cuda_bf16_b_thread = { 2, { 4, 8 }, { 16, 1 } };
static const cuda_layout cuda_bf16_b_value = { 2, { 2, 2 }, { 8, 64 } };
/* m16n8k8 of tf32: 4 values of A, 2 of B, each a register. */
static const cuda_layout cuda_tf32_a_thread = { 2, { 4, 8 }, { 16, 1 } };
static const cuda_layout cuda_tf32_a_value = { 2, { 2, 2 }, { 8, 64 } };
static const cuda_layout cuda_tf32_b_thread = { 2, { 4, 8 }, { 8, 1 } };
static const cuda_layout cuda_tf32_b_value = { 1, { 2 }, { 32 } };
/* Both: 4 values of C. */
static const cuda_layout cuda_c_thread = { 2, { 4, 8 }, { 32, 1 } };
static const cuda_layout cuda_c_value = { 2, { 2, 2 }, { 16, 8 } };
/* ldmatrix .x4. Places are bits: lane l hands in the 128 bits from 128 l on; a value is one bit of the four
   registers, 32 to each. */
static const cuda_layout cuda_ldmatrix_thread = { 1, { 32 }, { 32 } };
static const cuda_layout cuda_ldmatrix_value = { 2, { 32, 4 }, { 1, 1024 } };
static const cuda_layout cuda_transposed_thread = { 2, { 4, 8 }, { 256, 16 } };
static const cuda_layout cuda_transposed_value = { 3, { 16, 2, 4 }, { 1, 128, 1024 } };

/* From which bit of the 32 rows each bit of a lane's four registers comes. */
struct cuda_ldmatrix_places {
    uint16_t place[32][128];
    cuda_ldmatrix_places(const cuda_layout &thread, const cuda_layout &value)
    {
        for (unsigned lane = 0; lane < 32; lane++)
            for (unsigned bit = 0; bit < 128; bit++)
                place[lane][bit] = (uint16_t)(thread.at(lane) + value.at(bit));
    }
};
static const cuda_ldmatrix_places cuda_ldmatrix_plain(cuda_ldmatrix_thread, cuda_ldmatrix_value);
static const cuda_ldmatrix_places cuda_ldmatrix_transposed(cuda_transposed_thread, cuda_transposed_value);
static inline void cuda_host_ldmatrix(uint32_t *registers, const void *row, int transposed)
{
    const uint16_t *place = (transposed ? cuda_ldmatrix_transposed : cuda_ldmatrix_plain).place[threadIdx.x % 32];
    uint32_t mine[4];
    if ((uintptr_t)row % 16) cuda_host_die("a row that does not begin on 16 bytes", cuda_host_is_ldmatrix);
    memcpy(mine, row, sizeof mine);
    const cuda_host_slot *rows = cuda_host_meet(cuda_host_is_ldmatrix, mine, 4);
    for (unsigned i = 0; i < 4; i++) {
        registers[i] = 0;
        for (unsigned bit = 0; bit < 32; bit++) {
            const unsigned from = place[32 * i + bit];
            const uint32_t word = rows[from / 128][from % 128 / 32];
            registers[i] |= (word >> from % 32 & 1) << bit;
        }
    }
}

/* What distinguishes the two forms of mma: the columns of A (`depth`), and who holds each number of A and B. */
struct cuda_mma_form {
    unsigned depth;
    struct holder { unsigned thread, value; } a[16][16], b[16][8];
    cuda_mma_form(unsigned k, const cuda_layout &a_thread, const cuda_layout &a_value, const cuda_layout &b_thread,
                  const cuda_layout &b_value) : depth(k)
    {
        for (unsigned thread = 0; thread < 32; thread++) {
            for (unsigned value = 0; value < 16 * depth / 32; value++) {
                const unsigned place = a_thread.at(thread) + a_value.at(value);
                a[place % 16][place / 16] = { thread, value };
            }
            for (unsigned value = 0; value < 8 * depth / 32; value++) {
                const unsigned place = b_thread.at(thread) + b_value.at(value);
                b[place / 8][place % 8] = { thread, value };
            }
        }
    }
};
static const cuda_mma_form cuda_bf16_form(16, cuda_bf16_a_thread, cuda_bf16_a_value, cuda_bf16_b_thread,
                                          cuda_bf16_b_value);
static const cuda_mma_form cuda_tf32_form(8, cuda_tf32_a_thread, cuda_tf32_a_value, cuda_tf32_b_thread,
                                          cuda_tf32_b_value);
/* A number of one lane's registers: one of two bf16, or a tf32, of which the hardware reads 19 bits. */
static inline double cuda_bf16_of(const uint32_t *registers, unsigned value)
{
    const uint32_t word = registers[value / 2];
    const uint32_t upper = value % 2 ? word & 0xffff0000u : word << 16;
    return (double)__uint_as_float(upper);
}
static inline double cuda_tf32_of(const uint32_t *registers, unsigned value)
{
    return (double)__uint_as_float(registers[value] & 0xffffe000u);
}
template <int TF32>
static inline void cuda_host_gather(const cuda_host_slot *all, double (*a)[16], double (*b)[8])
{
    const cuda_mma_form &form = TF32 ? cuda_tf32_form : cuda_bf16_form;
    double (*number)(const uint32_t *, unsigned) = TF32 ? cuda_tf32_of : cuda_bf16_of;
    for (unsigned k = 0; k < form.depth; k++) {
        for (unsigned row = 0; row < 16; row++)
            a[row][k] = number(all[form.a[row][k].thread], form.a[row][k].value);
        for (unsigned column = 0; column < 8; column++)
            b[k][column] = number(all[form.b[k][column].thread] + 4, form.b[k][column].value);
    }
}
static inline unsigned cuda_host_place(unsigned lane, unsigned value)
{
    const unsigned place = cuda_c_thread.at(lane) + cuda_c_value.at(value);
    return 8 * (place % 16) + place / 16;
}
