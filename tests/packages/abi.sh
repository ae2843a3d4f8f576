#!/bin/sh
# abi.sh: the binary interface, as abidw of Debian's abigail-tools sees it, is the recorded one:
# functions, their versions, every type that callers share with the library. A change that breaks
# programs compiled before, and an addition, fail the test until the dump is renewed.
#
#   abi.sh [--renew]     --renew: keeps the interface as it is now, in tests/data/*.abi
#
# The dumps are of libraries of empty functions, made of the public headers: these have debug information, which
# a release has not, take no compiling of kernels, and are the same with any options of the build. That the
# real one exports just these functions is for symbols.sh, that they are as declared for the compiler.
set -eu
cd "$(dirname "$0")/../.."
. tests/verdict.sh
if ! command -v abidw >/dev/null; then
    echo "no abidw; sh platform/setup-debian.sh test installs it"
    exit 77
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

mkdir -p "$tmp/include/fovea"
cp include/fovea/*.h "$tmp/include/fovea"
sed 's/@VERSION@/0/; s/@[A-Z]*@/0/' include/fovea/version.h.in >"$tmp/include/fovea/version.h"
dump() { # name of the library, what marks its functions, map of its symbols
    { # each declaration from the mark to the semicolon gets a body
        printf '#include <fovea/%s>\n' $(cd include/fovea && ls *.h)
        awk "/^$2 / { inside = 1 } inside { print } inside && /;\$/ { inside = 0 }" include/fovea/*.h |
            sed 's/;$/ { __builtin_unreachable(); }/'
    } >"$tmp/$1.c"
    cc -std=c11 -g -gdwarf-4 "-fdebug-prefix-map=$tmp=." -fPIC -shared -I"$tmp/include" "$tmp/$1.c" \
        -o "$tmp/lib$1.so" "-Wl,--version-script=$3" "-Wl,-soname,lib$1.so"
    abidw --headers-dir "$tmp/include" --drop-private-types --no-corpus-path --no-comp-dir-path \
        --no-show-locs --type-id-style hash "$tmp/lib$1.so" >"$tmp/$1.abi"
}
dump fovea FOVEA_API src/fovea.map
dump fovea-train FOVEA_TRAIN_API src/train/fovea-train.map

if [ "${1:-}" = --renew ]; then
    cp "$tmp/fovea.abi" "$tmp/fovea-train.abi" tests/data
    exit 0
fi
for name in fovea fovea-train; do
    kept=tests/data/$name.abi
    status=0
    # abidiff reports no difference for a file that is truncated or mixed up, so check that it is
    # valid XML.
    python3 -c 'import sys, xml.etree.ElementTree as tree; tree.parse(sys.argv[1])' $kept || status=1
    abidiff $kept "$tmp/$name.abi" >"$tmp/said" || status=$?
    cat "$tmp/said"
    [ $status = 0 ] || echo "if this is meant: the version of the interface, then sh tests/packages/abi.sh --renew"
    verdict "the binary interface of lib$name is as it was" $status
done
verdicts
