#!/bin/sh
# relocatable.sh: at the end of `meson install`, the prefix of fovea.pc and of fovea-train.pc becomes the
# folder of the file itself, so that the installed tree may be moved. Meson can do that itself from 0.63 on; it need be no
# newer than 0.61.
#
#   relocatable.sh LIBDIR      relative to the prefix, with MESON_INSTALL_DESTDIR_PREFIX in the environment
set -eu
case $1 in
/*) exit 0 ;; # outside of the prefix: nothing to move along
esac
up=$(printf '%s/pkgconfig' "$1" | sed 's|[^/][^/]*|..|g')
for name in fovea fovea-train; do
    file=$MESON_INSTALL_DESTDIR_PREFIX/$1/pkgconfig/$name.pc
    [ -e "$file" ] || continue # not among the parts that are installed
    sed "s|^prefix=.*|prefix=\${pcfiledir}/$up|" "$file" >"$file.part"
    cat "$file.part" >"$file" # which keeps its mode
    rm "$file.part"
done
