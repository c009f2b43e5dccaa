/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg_idct_vec.h - the inverse DCT of jpeg_core.h on vectors of any width.  Every 128-bit lane
 * holds a row of its own block, so the code is that of one block, and wider vectors do more blocks
 * at once.  jpeg_idct_avx2.c and jpeg_idct_avx512.c include it.
 *
 * The includer defines V (the vector), OP(name) (an instruction without its prefix), LOAD, QUANT
 * (8 words to every lane) and ZERO; it stores the pixels. */
#define PAIR(a, b) OP(set1_epi32)((int)((uint32_t)(uint16_t)(a) | (uint32_t)(uint16_t)(b) << 16))

/* a * ka + b * kb, in 32 bits: for the low and the high half of the 16-bit words. */
typedef struct wide {
    V lo, hi;
} wide;

VINLINE wide mul2(V a, V b, int ka, int kb)
{
    V k = PAIR(ka, kb);

    return (wide){ OP(madd_epi16)(OP(unpacklo_epi16)(a, b), k),
                   OP(madd_epi16)(OP(unpackhi_epi16)(a, b), k) };
}

VINLINE wide add2(wide a, wide b)
{
    return (wide){ OP(add_epi32)(a.lo, b.lo), OP(add_epi32)(a.hi, b.hi) };
}

VINLINE wide sub2(wide a, wide b)
{
    return (wide){ OP(sub_epi32)(a.lo, b.lo), OP(sub_epi32)(a.hi, b.hi) };
}

/* x << 13 of 16-bit words, with what rounds the results. */
VINLINE wide grow2(V x, V round)
{
    return (wide){ OP(add_epi32)(OP(srai_epi32)(OP(unpacklo_epi16)(ZERO, x), 3), round),
                   OP(add_epi32)(OP(srai_epi32)(OP(unpackhi_epi16)(ZERO, x), 3), round) };
}

#define PACK(w, shift) OP(packs_epi32)(OP(srai_epi32)((w).lo, shift), OP(srai_epi32)((w).hi, shift))

/* Both passes differ in the final shift only. */
#define PASS(x, shift)                                                                             \
    do {                                                                                           \
        V round = OP(set1_epi32)(1 << ((shift)-1));                                                \
        wide e0 = grow2(OP(add_epi16)((x)[0], (x)[4]), round);                                     \
        wide e1 = grow2(OP(sub_epi16)((x)[0], (x)[4]), round);                                     \
        wide e2 = mul2((x)[2], (x)[6], 4433, -10704), e3 = mul2((x)[2], (x)[6], 10703, 4433);      \
        V s73 = OP(add_epi16)((x)[7], (x)[3]), s51 = OP(add_epi16)((x)[5], (x)[1]);                \
        wide z3 = mul2(s73, s51, -6436, 9633), z4 = mul2(s73, s51, 9633, 6437);                    \
        wide o7 = add2(mul2((x)[7], (x)[1], -4927, -7373), z3);                                    \
        wide o5 = add2(mul2((x)[5], (x)[3], -4176, -20995), z4);                                   \
        wide o3 = add2(mul2((x)[5], (x)[3], -20995, 4177), z3);                                    \
        wide o1 = add2(mul2((x)[7], (x)[1], -7373, 4926), z4);                                     \
        wide a0 = add2(e0, e3), a3 = sub2(e0, e3), a1 = add2(e1, e2), a2 = sub2(e1, e2), t;        \
                                                                                                   \
        t = add2(a0, o1), (x)[0] = PACK(t, shift);                                                 \
        t = sub2(a0, o1), (x)[7] = PACK(t, shift);                                                 \
        t = add2(a1, o3), (x)[1] = PACK(t, shift);                                                 \
        t = sub2(a1, o3), (x)[6] = PACK(t, shift);                                                 \
        t = add2(a2, o5), (x)[2] = PACK(t, shift);                                                 \
        t = sub2(a2, o5), (x)[5] = PACK(t, shift);                                                 \
        t = add2(a3, o7), (x)[3] = PACK(t, shift);                                                 \
        t = sub2(a3, o7), (x)[4] = PACK(t, shift);                                                 \
    } while (0)

/* Transposes the 8 x 8 words of every lane. */
VINLINE void turn(V x[8])
{
    V a0 = OP(unpacklo_epi16)(x[0], x[1]), a1 = OP(unpackhi_epi16)(x[0], x[1]);
    V a2 = OP(unpacklo_epi16)(x[2], x[3]), a3 = OP(unpackhi_epi16)(x[2], x[3]);
    V a4 = OP(unpacklo_epi16)(x[4], x[5]), a5 = OP(unpackhi_epi16)(x[4], x[5]);
    V a6 = OP(unpacklo_epi16)(x[6], x[7]), a7 = OP(unpackhi_epi16)(x[6], x[7]);
    V b0 = OP(unpacklo_epi32)(a0, a2), b1 = OP(unpackhi_epi32)(a0, a2);
    V b2 = OP(unpacklo_epi32)(a1, a3), b3 = OP(unpackhi_epi32)(a1, a3);
    V b4 = OP(unpacklo_epi32)(a4, a6), b5 = OP(unpackhi_epi32)(a4, a6);
    V b6 = OP(unpacklo_epi32)(a5, a7), b7 = OP(unpackhi_epi32)(a5, a7);

    x[0] = OP(unpacklo_epi64)(b0, b4);
    x[1] = OP(unpackhi_epi64)(b0, b4);
    x[2] = OP(unpacklo_epi64)(b1, b5);
    x[3] = OP(unpackhi_epi64)(b1, b5);
    x[4] = OP(unpacklo_epi64)(b2, b6);
    x[5] = OP(unpackhi_epi64)(b2, b6);
    x[6] = OP(unpacklo_epi64)(b3, b7);
    x[7] = OP(unpackhi_epi64)(b3, b7);
}

/* Blocks at coef (row r at coef + r * 32) to pixels: out[i] has, in each lane, rows 2i and 2i + 1
 * of a block, 8 bytes each. */
VINLINE void blocks(const int16_t *coef, const uint16_t *q, V out[4])
{
    V x[8];

    for (int r = 0; r < 8; r++)
        x[r] = OP(mullo_epi16)(LOAD(coef + r * 32), QUANT(q + r * 8));
    PASS(x, 11);
    turn(x);
    PASS(x, 18);
    turn(x);
    for (int i = 0; i < 4; i++)
        out[i] = OP(add_epi8)(OP(packs_epi16)(x[2 * i], x[2 * i + 1]), OP(set1_epi8)(-128));
}

/* ---- blocks with few coefficients ---- */

/* 1: all coefficients are among the first ten places, which are in the upper left 4 x 4.  (No place
 * is over 63.) */
VINLINE int only_few(const uint8_t last[4])
{
    uint32_t four;

    memcpy(&four, last, sizeof four);
    return !((four + 0x76767676u) & 0x80808080u);
}

/* PASS where x[4] to x[7] are zero, on pairs of words: even has x[0] and x[2], odd x[3] and
 * x[1]. */
#define FEW(t, even, odd, shift)                                                                   \
    do {                                                                                           \
        V round = OP(set1_epi32)(1 << ((shift)-1));                                                \
        V a0 = OP(add_epi32)(OP(madd_epi16)(even, PAIR(8192, 10703)), round);                      \
        V a3 = OP(add_epi32)(OP(madd_epi16)(even, PAIR(8192, -10703)), round);                     \
        V a1 = OP(add_epi32)(OP(madd_epi16)(even, PAIR(8192, 4433)), round);                       \
        V a2 = OP(add_epi32)(OP(madd_epi16)(even, PAIR(8192, -4433)), round);                      \
        V o1 = OP(madd_epi16)(odd, PAIR(9633, 6437 + 4926));                                       \
        V o3 = OP(madd_epi16)(odd, PAIR(4177 - 6436, 9633));                                       \
        V o5 = OP(madd_epi16)(odd, PAIR(9633 - 20995, 6437));                                      \
        V o7 = OP(madd_epi16)(odd, PAIR(-6436, 9633 - 7373));                                      \
                                                                                                   \
        (t)[0] = OP(srai_epi32)(OP(add_epi32)(a0, o1), shift);                                     \
        (t)[7] = OP(srai_epi32)(OP(sub_epi32)(a0, o1), shift);                                     \
        (t)[1] = OP(srai_epi32)(OP(add_epi32)(a1, o3), shift);                                     \
        (t)[6] = OP(srai_epi32)(OP(sub_epi32)(a1, o3), shift);                                     \
        (t)[2] = OP(srai_epi32)(OP(add_epi32)(a2, o5), shift);                                     \
        (t)[5] = OP(srai_epi32)(OP(sub_epi32)(a2, o5), shift);                                     \
        (t)[3] = OP(srai_epi32)(OP(add_epi32)(a3, o7), shift);                                     \
        (t)[4] = OP(srai_epi32)(OP(sub_epi32)(a3, o7), shift);                                     \
    } while (0)

/* turn() of rows in which only the first four words count. */
VINLINE void turn_left(V x[8])
{
    V a0 = OP(unpacklo_epi16)(x[0], x[1]), a2 = OP(unpacklo_epi16)(x[2], x[3]);
    V a4 = OP(unpacklo_epi16)(x[4], x[5]), a6 = OP(unpacklo_epi16)(x[6], x[7]);
    V b0 = OP(unpacklo_epi32)(a0, a2), b1 = OP(unpackhi_epi32)(a0, a2);
    V b4 = OP(unpacklo_epi32)(a4, a6), b5 = OP(unpackhi_epi32)(a4, a6);

    x[0] = OP(unpacklo_epi64)(b0, b4);
    x[1] = OP(unpackhi_epi64)(b0, b4);
    x[2] = OP(unpacklo_epi64)(b1, b5);
    x[3] = OP(unpackhi_epi64)(b1, b5);
}

/* blocks() of such: columns 4 to 7 are zero after the first pass too. */
VINLINE void few_blocks(const int16_t *coef, const uint16_t *q, V out[4])
{
    V x[8], lo[8], hi[8];

    for (int r = 0; r < 4; r++)
        x[r] = OP(mullo_epi16)(LOAD(coef + r * 32), QUANT(q + r * 8));
    FEW(lo, OP(unpacklo_epi16)(x[0], x[2]), OP(unpacklo_epi16)(x[3], x[1]), 11);
    for (int r = 0; r < 8; r++)
        x[r] = OP(packs_epi32)(lo[r], lo[r]);
    turn_left(x);
    FEW(lo, OP(unpacklo_epi16)(x[0], x[2]), OP(unpacklo_epi16)(x[3], x[1]), 18);
    FEW(hi, OP(unpackhi_epi16)(x[0], x[2]), OP(unpackhi_epi16)(x[3], x[1]), 18);
    for (int r = 0; r < 8; r++)
        x[r] = OP(packs_epi32)(lo[r], hi[r]);
    turn(x);
    for (int i = 0; i < 4; i++)
        out[i] = OP(add_epi8)(OP(packs_epi16)(x[2 * i], x[2 * i + 1]), OP(set1_epi8)(-128));
}
