#!/bin/sh
# symbols.sh: the shared library exports fovea_* only, each with a version; the static one defines
# nothing outside the prefixes fovea_ and fv_, so that it can be linked into anything.
#
#   symbols.sh libfovea.so libfovea.a
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

nm=${NM:-nm}
versioned=$($nm -D --defined-only --with-symbol-versions "$1" | awk '$2 != "A" {print $3}') # A: the versions themselves
expect "$1 exports" '^fovea_' "$versioned"
expect "$1 exports without version" '@@FOVEA_[0-9.]*$' "$versioned"
exported=$(printf '%s\n' "$versioned" | sed 's/@.*//')
expect "$2 defines" '^\(fovea_\|fv_\)' "$($nm -g --defined-only "$2" | awk 'NF == 3 {print $3}')"

# Everything that the header declares is there, and nothing else.
declared=$(sed -n 's/^FOVEA_API .*[ *]\(fovea_[a-z0-9_]*\)(.*/\1/p' "$(dirname "$0")"/../../include/fovea/*.h | sort)
if [ -n "$declared" ] && [ "$declared" = "$(printf '%s\n' "$exported" | sort)" ]; then
    passed=$((passed + 1))
else
    failed=$((failed + 1))
    echo "$1 exports other functions than the public headers declare:"
    printf '%s\n%s\n' "$declared" "$exported" | sort | uniq -u
fi

echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
