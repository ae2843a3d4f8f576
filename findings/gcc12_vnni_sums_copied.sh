#!/bin/sh
# GCC 12.2.0: a loop that adds products to a tile of sums by _mm512_dpbusd_epi32 gets as many copies of
# registers as products.
#
# vpdpbusd adds to the register that its sum is in, and 24 sums, 3 vectors of columns and a broadcast
# are 28 of 32 registers, so that the loop needs no copy. GCC makes 24 for 24 products; the same loop
# with the instruction as an asm statement, "+v" for the sum, has 6. In larger functions, where other
# values are alive, sums are stored to the stack and loaded again in every turn as well.
#
#   sh findings/gcc12_vnni_sums_copied.sh      exit 0: it is still so; needs Debian 12 for amd64
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -qq -o APT::Sandbox::User=root cpp-12=12.2.0-14+deb12u1 libgcc-12-dev=12.2.0-14+deb12u1 \
    libmpc3=1.3.1-1 libmpfr6=4.2.0-1 libgmp10=2:6.2.1+dfsg1-1.1 libisl23=0.25-1.1
for package in *.deb; do
    dpkg -x "$package" root
done
cat >tile.c <<'C'
#include <immintrin.h>

#ifdef IN_PLACE
static inline __m512i add(__m512i sum, __m512i x, __m512i y)
{
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(y));
    return sum;
}
#else
#define add _mm512_dpbusd_epi32
#endif

void tile(__m512i out[8][3], const int *row, const __m512i *columns, unsigned long groups)
{
    __m512i sum[8][3];
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 3; j++)
            sum[i][j] = out[i][j];
    for (; groups > 0; groups--, row += 8, columns += 3)
        for (int i = 0; i < 8; i++)
            for (int j = 0; j < 3; j++)
                sum[i][j] = add(sum[i][j], columns[j], _mm512_set1_epi32(row[i]));
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 3; j++)
            out[i][j] = sum[i][j];
}
C
# Instructions of the loop that reads all rows: from its label to the jump back.
compiled() {
    LD_LIBRARY_PATH=root/usr/lib/x86_64-linux-gnu root/usr/lib/gcc/x86_64-linux-gnu/12/cc1 -quiet \
        -isystem root/usr/lib/gcc/x86_64-linux-gnu/12/include -O3 -D_MM_MALLOC_H_INCLUDED -mavx512f \
        -mavx512vnni "$@" tile.c -o tile.s
    awk '/^\.L[0-9]+:/ { dots = copies = 0; label = $1 }
         /vpdpbusd/ { dots++ }
         /vmovdqa.*%zmm[0-9]+, *%zmm/ { copies++ }
         /\tj[a-z]+\t\.L/ && $2 ":" == label && dots { print dots, copies }' tile.s
}
intrinsics=$(compiled)
in_place=$(compiled -DIN_PLACE)
echo "vpdpbusd and copies of registers in the loop: $intrinsics by intrinsics, $in_place by asm"
set -- $intrinsics $in_place
[ "$1" = 24 ] && [ "$3" = 24 ] && [ "$2" -ge 20 ] && [ "$4" -le 8 ]
