#!/bin/sh
# symbols.sh: the shared libraries export fovea_* only, each with a version, and libfovea.so what libfovea-train.so
# needs, no more, as FOVEA_PRIVATE; the static ones define nothing outside the prefixes fovea_ and fv_, so that they can
# be linked into anything. Nothing of training is in libfovea.
#
#   symbols.sh libfovea.so libfovea.a [libfovea-train.so libfovea-train.a]
set -eu
passed=0
failed=0

expect() { # what, pattern of the names that are allowed, names
    others=$(printf '%s\n' "$3" | grep -v "$2" || true)
    if [ -z "$3" ] || [ -n "$others" ]; then
        failed=$((failed + 1))
        echo "$1:" $others
    else
        passed=$((passed + 1))
    fi
}

same() { # what, names, other names
    if [ -n "$2" ] && [ "$2" = "$3" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "$1:"
        printf '%s\n%s\n' "$2" "$3" | sort | uniq -u
    fi
}

nm=${NM:-nm}
headers=$(dirname "$0")/../../include/fovea
exported() { # library: name@@VERSION of everything
    $nm -D --defined-only --with-symbol-versions "$1" | awk '$2 != "A" {print $3}' # A: the versions themselves
}
check() { # FOVEA_API or what else marks its functions, shared library, static library
    public=$(exported "$2" | grep -v '@@FOVEA_PRIVATE$' || true)
    expect "$2 exports" '^fovea_' "$public"
    expect "$2 exports without version" '@@FOVEA_[A-Z_]*[0-9.]*$' "$public"
    expect "$3 defines" '^\(fovea_\|fv_\)' "$($nm -g --defined-only "$3" | awk 'NF == 3 {print $3}')"
    # The library exports exactly the functions that the headers declare.
    same "$2 exports other functions than the public headers declare" \
        "$(sed -n "s/^$1 .*[ *]\(fovea_[a-z0-9_]*\)(.*/\1/p" "$headers"/*.h | sort)" \
        "$(printf '%s\n' "$public" | sed 's/@.*//' | sort)"
}
check FOVEA_API "$1" "$2"
of_training='grad\|_loss\|trainer\|adamw\|fovea_training'
expect "$2 has something of training" '^none$' \
    "$($nm --defined-only "$2" | awk 'NF == 3 {print $3}' | grep "$of_training" || echo none)"
if [ $# -gt 2 ]; then
    check FOVEA_TRAIN_API "$3" "$4"
    same "FOVEA_PRIVATE of $1 is not what $3 needs" \
        "$($nm -D --undefined-only "$3" | awk '{print $2}' | sed -n 's/^\(fv_.*\)@FOVEA_PRIVATE$/\1/p' | sort)" \
        "$(exported "$1" | sed -n 's/^\(fv_.*\)@@FOVEA_PRIVATE$/\1/p' | sort)"
fi

echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
