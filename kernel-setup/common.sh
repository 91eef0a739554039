# Shared by the scripts here, which source it: arguments, words, and files that are made and taken
# back. A script sets `name` and `needs_root_for`, calls `arguments "$@"`, and defines the functions
# `check`, `up` and `undo`; what is left of the arguments is in `rest`.
#
# With --root DIR, files are made below DIR and nothing else is touched: for images, and for tests.
# shellcheck shell=bash
set -euo pipefail

mode=up
root=
rest=()
missing=0

stop() {
    echo "$name: $*" >&2
    exit 1
}

# The comment at the top of the script is its help.
usage() {
    sed -n '2,/^name=/s/^# \{0,1\}//p' "$0"
    exit 2
}

arguments() {
    while [ $# -gt 0 ]; do
        case $1 in
        --check | --undo) mode=${1#--} ;;
        --root)
            [ -d "${2-}" ] || stop "--root needs a folder that is there"
            root=${2%/}
            shift
            ;;
        --help | -h) usage ;;
        -*) stop "there is no option $1; see --help" ;;
        *) rest+=("$1") ;;
        esac
        shift
    done
}

# Whether this machine is meant, and not a folder.
live() { [ -z "$root" ]; }

report() {
    if [ "$1" = yes ]; then
        echo "ok       $2"
    else
        echo "missing  $2"
        missing=1
    fi
}

# is_written FILE TEXT: whether the file holds that text and nothing else.
is_written() { [ -f "$root$1" ] && [ "$(cat "$root$1")" = "$2" ]; }

report_written() { if is_written "$1" "$2"; then report yes "$1"; else report no "$1"; fi; }

# write FILE TEXT: makes the file and its folders, unless it is as it should be.
write() {
    is_written "$1" "$2" && return
    mkdir -p "$(dirname "$root$1")"
    printf '%s\n' "$2" >"$root$1"
}

reload_systemd() {
    if live && [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
}

run() {
    if [ "$mode" != check ] && live && [ "$(id -u)" != 0 ]; then
        stop "only root may do this; --check is for everyone"
    fi
    case $mode in
    up)
        up
        check
        ;;
    check) check ;;
    undo)
        undo
        echo "undone"
        return
        ;;
    esac
    return $missing
}
