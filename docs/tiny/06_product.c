/* 06_product.c - Why is my matrix product so slow?

   c = a b, c_ij = Σ_k a_ik b_kj, is three loops. A processor core can do 8 to 32
   multiply-adds in a tick of its clock, but only with numbers that are in its registers
   already. Each rung of this ladder does the same multiply-adds and moves fewer numbers:

       loops     each multiply-add reads a number of a and one of b, down a column of b
       rows      two loops are exchanged: b and c are read along their rows
       tiles     4 rows of c, two vectors each, stay in registers while k runs. A step of k
                 reads 4 numbers and 2 vectors for 8 multiply-adds of whole vectors. The
                 columns of b that the tiles read are copied first: they lie in one piece,
                 and all rows of a pass over them while they are near

   The program prints what each rung reaches, in 10^9 operations a second. A multiply-add
   counts as two.

       cc -O2 docs/tiny/06_product.c -o 06 -lm && ./06 */

#include <stdio.h>
#include <string.h>
#include <time.h>

/* Floats that are added and multiplied together, in the words of GCC and Clang. (For other
   compilers `typedef float lanes` with LANES = 1 is right, too, if slow.) */
enum { LANES = 4, ROWS = 4, COLUMNS = 2 * LANES, DEEPEST = 1024 };
typedef float lanes __attribute__((vector_size(16)));

/* c (n, m) = a (n, k) b (k, m), as in all that follow. */
static void product_loops(float *c, const float *a, const float *b, size_t n, size_t k,
                          size_t m)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < m; j++) {
            float sum = 0;
            for (size_t l = 0; l < k; l++) sum += a[i * k + l] * b[l * m + j];
            c[i * m + j] = sum;
        }
}

static void product_rows(float *c, const float *a, const float *b, size_t n, size_t k,
                         size_t m)
{
    memset(c, 0, n * m * sizeof *c);
    for (size_t i = 0; i < n; i++)
        for (size_t l = 0; l < k; l++)
            for (size_t j = 0; j < m; j++) c[i * m + j] += a[i * k + l] * b[l * m + j];
}

/* sum (ROWS, COLUMNS) of 4 rows of a, and of a strip of b, (k, COLUMNS). */
static void multiply_tile(float *sum, const float *const *a, const float *strip, size_t k)
{
    lanes s[ROWS][2], left, right;
    memset(s, 0, sizeof s);
    for (size_t l = 0; l < k; l++, strip += COLUMNS) {
        memcpy(&left, strip, sizeof left);
        memcpy(&right, strip + LANES, sizeof right);
        s[0][0] += a[0][l] * left;
        s[0][1] += a[0][l] * right;
        s[1][0] += a[1][l] * left;
        s[1][1] += a[1][l] * right;
        s[2][0] += a[2][l] * left;
        s[2][1] += a[2][l] * right;
        s[3][0] += a[3][l] * left;
        s[3][1] += a[3][l] * right;
    }
    memcpy(sum, s, sizeof s);
}

/* Strip after strip, and its tiles. At the lower edge the last row stands for those that
   are not there; at the right edge only `columns` columns are kept. k ≤ DEEPEST. */
static void product_tiles(float *c, const float *a, const float *b, size_t n, size_t k,
                          size_t m)
{
    static float strip[DEEPEST * COLUMNS];
    for (size_t j = 0; j < m; j += COLUMNS) {
        size_t columns = m - j < COLUMNS ? m - j : COLUMNS;
        for (size_t l = 0; l < k; l++)
            memcpy(strip + l * COLUMNS, b + l * m + j, columns * sizeof *b);
        for (size_t i = 0; i < n; i += ROWS) {
            float sum[ROWS * COLUMNS];
            const float *row[ROWS];
            for (size_t r = 0; r < ROWS; r++) row[r] = a + (i + r < n ? i + r : n - 1) * k;
            multiply_tile(sum, row, strip, k);
            for (size_t r = 0; r < ROWS && i + r < n; r++)
                memcpy(c + (i + r) * m + j, sum + r * COLUMNS, columns * sizeof *c);
        }
    }
}

typedef void product(float *c, const float *a, const float *b, size_t n, size_t k,
                     size_t m);

static void print_rung(const char *name, product *run)
{
    enum { N = 64, K = 1024, M = 1024 };
    static float a[N * K], b[K * M], c[N * M];
    double seconds = 0, calls = 0;
    for (size_t i = 0; i < N * K; i++) a[i] = (float)(i % 7) - 3;
    for (size_t i = 0; i < K * M; i++) b[i] = (float)(i % 11) - 5;
    for (clock_t start = clock(); seconds < 0.2; calls++) {
        run(c, a, b, N, K, M);
        seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    }
    printf("%-6s %6.2f GFLOP/s\n", name, 2e-9 * N * K * M * calls / seconds);
}

int main(void)
{
    print_rung("loops", product_loops);
    print_rung("rows", product_rows);
    print_rung("tiles", product_tiles);
    return 0;
}

/* Try next: LANES = 8, vector_size(32) and -march=native. Make M = 1000 and see the first
   rung rise. Read b without the copy. Give each thread some of the strips. */
