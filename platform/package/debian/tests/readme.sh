# readme.sh: what the README's first page says to do; the tests read it with `.`, from the tree's folder.
# $UNPACKED is where packages were unpacked that are not installed.
set -eu
readme=$PWD/README.md
scene=$PWD/bench/scene.jpg
checkpoint=$PWD/tests/data/golden/models/dinov2-03
work=${AUTOPKGTEST_TMP:-$(mktemp -d)}
cd "$work"
export HOME="$work" # of caches and tuning results

# block SECTION LANGUAGE: the blocks of code there, with synthetic models, which need no download, in place of
# checkpoints.
block() {
    awk -v section="## $1" -v fence="\`\`\`$2" '
        /^## / { here = $0 == section }
        /^```/ { copies = here && $0 == fence; next }
        copies' "$readme" |
        sed 's/dinov2-base/synthetic:dinov2-s/g; s/depth-anything-v2-small/synthetic:depth-anything-s/g
             s/rf-detr-small/synthetic:rf-detr-s/g; s/\(gla-340m\)/synthetic:\1/g'
}

# same WHAT GOT WANT
same() {
    if [ "$2" != "$3" ]; then
        echo "$1: $2, not $3" >&2
        exit 1
    fi
}
