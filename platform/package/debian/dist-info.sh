#!/bin/sh
# dist-info.sh VERSION FOLDER: what pip and importlib.metadata read of the module, as pyproject.toml has it.
set -eu
folder=$2/fovea-$1.dist-info
value() { # key: its string, or those of its list, a line each
    sed -n "s/^$1 = //p" pyproject.toml | tr -d '[]' | tr ',' '\n' | sed 's/^ *"\(.*\)" *$/\1/'
}
mkdir -p "$folder"
echo debian >"$folder/INSTALLER"
{
    echo 'Metadata-Version: 2.1'
    echo 'Name: fovea'
    echo "Version: $1"
    echo "Summary: $(sed -n 's/^description = "\(.*\)"$/\1/p' pyproject.toml)"
    echo "License: $(value license)"
    echo "Requires-Python: $(value requires-python)"
    value dependencies | sed 's/^/Requires-Dist: /'
} >"$folder/METADATA"
