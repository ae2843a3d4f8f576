#!/bin/sh
# test_gst.sh: pipelines as users write them, with gst-launch-1.0.
#
#   test_gst.sh path/to/foveafilter's/folder path/to/tests/data
#
# 300 frames; the labels on the bus; a model that is missing ends a pipeline with its name.
set -eu
command -v gst-launch-1.0 >/dev/null || {
    echo "no gst-launch-1.0 here: sh platform/setup-debian.sh test installs it"
    echo "0 passed, 0 failed, 1 skipped"
    exit 77
}
export GST_PLUGIN_PATH="$1"
model="$2/golden/models/vit-01"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export GST_REGISTRY="$folder/registry" GST_REGISTRY_FORK=no
passed=0
failed=0

note() { # name, status
    if [ "$2" = 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $1"
        cat "$folder/log"
    fi
}

pipeline() { # a property of the element, frames
    gst-launch-1.0 -m videotestsrc num-buffers="$2" ! \
        video/x-raw,format=NV12,width=80,height=60 ! foveafilter threads=1 "$1" ! fakesink \
        >"$folder/log" 2>&1
}

status=0
pipeline "model=\"$model\"" 300 || status=1
[ "$(grep -c 'foveafilter, timestamp' "$folder/log")" = 300 ] || status=1
[ "$(grep -c 'LABEL_' "$folder/log")" = 300 ] || status=1
note '300 frames' "$status"

status=0
pipeline 'model=/nowhere/at/all' 300 && status=1
grep -q 'ERROR.*/nowhere/at/all' "$folder/log" || status=1
note 'a missing model' "$status"

echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
