#!/bin/sh
# test_setup.sh: platform/setup-debian.sh on distributions that are played: what it asks apt for is
# what they offer. And the build uses nothing that is newer than the oldest Meson that it allows.
#
#   test_setup.sh BUILD
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/tests/verdict.sh"
build=$1
box=$(mktemp -d)
trap 'rm -rf "$box"' EXIT

# Simulates a machine with the packages in $box/installed. Its distribution offers all packages
# except those in $box/lacks, and apt knows them once `apt-get update` has written $box/lists.
play() { # program, what it does
    printf '#!/bin/sh\n%s\n' "$2" >"$box/$1"
    chmod +x "$box/$1"
}
play id 'echo 0'
play dpkg 'exit 0'
play dpkg-query 'for last; do :; done; ! grep -qx -- "$last" '"$box"'/installed || echo "install ok installed"'
play apt-cache "[ -e $box/lists ] && ! grep -qx -- \"\$2\" $box/lacks || exit 0
echo \"\$2:\"; echo '  Candidate: 1.0'"
play apt-get "echo \"\$*\" >>$box/asked; case \$* in *update*) touch $box/lists ;; esac"

setup() { # purpose; prints the packages that apt-get was asked for
    : >"$box/asked"
    PATH=$box:$PATH sh "$root/platform/setup-debian.sh" "$1" 2>/dev/null || echo failed
    sed -n 's/.*--no-install-recommends//p' "$box/asked" | tr ' ' '\n'
}
: >"$box/installed"
: >"$box/lacks"

status=0
setup test >"$box/packages"
for package in meson clang libclang-rt-dev gcc-aarch64-linux-gnu python3-gi; do
    grep -qx "$package" "$box/packages" || status=1
done
! grep '|' "$box/packages" || status=1
verdict "Debian, nothing installed" $status

rm "$box/lists"
printf '%s\n' libclang-rt-dev gcc-aarch64-linux-gnu >"$box/lacks"
status=0
setup test >"$box/packages"
! grep -xf "$box/lacks" "$box/packages" || status=1
for package in clang gcc libc6-dev-arm64-cross; do
    grep -qx "$package" "$box/packages" || status=1
done
verdict "Ubuntu 22.04 for arm64, nothing installed" $status

rm "$box/lists"
printf '%s\n' oclgrind pkg-config >"$box/lacks"
status=0
setup test >"$box/packages"
! grep -xf "$box/lacks" "$box/packages" || status=1
grep -qx pkgconf "$box/packages" || status=1
verdict "Debian 13, nothing installed: what it has no longer is left out" $status

# The command printed for a user who is not root must work unchanged, from any folder.
play id 'echo 1000'
play sudo 'exit 1'
status=0
mkdir "$box/a folder's name"
cp "$root/platform/setup-debian.sh" "$box/a folder's name"
said=$(PATH=$box:$PATH sh "$box/a folder's name/setup-debian.sh" build test 2>&1) && status=1
command=$(printf '%s\n' "$said" | sed -n 's/^install them as root: //p')
play id 'echo 0'
: >"$box/asked"
(cd / && PATH=$box:$PATH sh -c "$command") 2>/dev/null || status=1
grep -q -- '--no-install-recommends.* libjansson-dev' "$box/asked" || status=1
verdict "without root: the command that is printed" $status
rm -r "$box/sudo" "$box/a folder's name"

sort -u "$box/packages" >"$box/installed"
status=0
[ -z "$(setup test)" ] && [ ! -s "$box/asked" ] || status=1
verdict "everything installed: apt is not asked" $status

status=0
! grep 'Project .* uses feature' "$build/meson-logs/meson-log.txt" || status=1
verdict "the oldest Meson" $status

verdicts
