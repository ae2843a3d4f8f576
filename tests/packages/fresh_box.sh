# fresh_box.sh: provides an empty Debian. Scripts read this file with `.` after they set $release
# (bookworm, trixie or sid) and $box (the folder of an existing Debian, or empty). It needs root,
# and a network for Debian's packages. $inside is a folder shared with that Debian.
case $release in
bookworm | trixie | sid) ;;
*)
    echo "$(basename "$0"): $release: bookworm, trixie or sid" >&2
    exit 1
    ;;
esac
if [ "$(id -u)" != 0 ] || ! command -v debootstrap >/dev/null; then
    echo "$(basename "$0") needs root and debootstrap (apt-get install debootstrap)" >&2
    exit 77
fi
keep=$box
[ -n "$box" ] || box=$(mktemp -d)
mkdir -p "$box"
chmod 755 "$box" # as a root directory is: tests look into /proc as a user without rights
inside=/srv/fovea
work=$box$inside
leave() {
    umount "$box/dev/pts" "$box/proc" "$box/sys" 2>/dev/null || true
    [ -n "$keep" ] || rm -rf --one-file-system "$box"
}
trap leave EXIT

# open_box PACKAGES: creates the Debian with these comma-separated packages, unless it exists.
open_box() {
    if [ ! -x "$box/usr/bin/apt-get" ]; then
        debootstrap --variant=minbase --include="ca-certificates,$1" "$release" "$box" >&2
        # Copies the certificates that this machine trusts, because it may have its own package
        # server.
        cp /etc/ssl/certs/ca-certificates.crt "$box/etc/ssl/certs/ca-certificates.crt"
        cp /etc/resolv.conf "$box/etc/resolv.conf"
        # Mirrors of sid may lag weeks behind; by default apt then refuses their package lists as expired.
        echo 'Acquire::Check-Valid-Until "false";' >"$box/etc/apt/apt.conf.d/90lagging-mirror"
    fi
    mount --bind /dev/pts "$box/dev/pts" # what is said on a terminal
    mount --bind /proc "$box/proc"
    mount --bind /sys "$box/sys" # PoCL ends programs that it finds without
    rm -rf "$work"
    mkdir "$work"
}

in_box() { # command, with a new environment
    env -i PIP_CERT=/etc/ssl/certs/ca-certificates.crt PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=$inside LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive chroot "$box" "$@"
}
