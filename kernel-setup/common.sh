# Shared by the scripts here, which source it: arguments, words, and files and services that are made
# and taken back. A script sets `name`, calls `arguments "$@"`, and defines the functions `check`, `up`
# and `undo`; what is left of the arguments is in `rest`.
#
# Exit status of every script: 0 all is there, or was made or undone; 1 something is missing, or could
# not be done; 2 the arguments are wrong.
#
# With --root DIR, files are made below DIR and nothing else is touched: for images, and for tests.
# shellcheck shell=bash disable=SC2154
set -euo pipefail

mode=up
root=
rest=()
missing=0
units=/etc/systemd/system

stop() {
    echo "$name: $*" >&2
    exit 1
}

# What was asked for makes no sense.
wrong() {
    echo "$name: $*" >&2
    exit 2
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
            [ -d "${2-}" ] || wrong "--root needs a folder that is there"
            root=${2%/}
            shift
            ;;
        --help | -h) usage ;;
        -*) wrong "there is no option $1; see --help" ;;
        *) rest+=("$1") ;;
        esac
        shift
    done
}

# Whether this machine is meant, and not a folder.
live() { [ -z "$root" ]; }

# network_interface NAME: refuses what is none, or is none of this machine.
network_interface() {
    [[ $1 =~ ^[A-Za-z0-9_.-]{1,15}$ ]] || wrong "no network interface is called $1"
    if live && [ "$mode" != undo ]; then
        [ -d "/sys/class/net/$1" ] || wrong "there is no network interface $1; see: ip link"
    fi
}

report() {
    if [ "$1" = yes ]; then
        echo "ok       $2"
    else
        echo "missing  $2"
        missing=1
    fi
}

note() { echo "note     $1"; }

# is_written FILE TEXT: whether the file holds that text and nothing else.
is_written() { [ -f "$root$1" ] && [ "$(cat "$root$1")" = "$2" ]; }

report_written() { if is_written "$1" "$2"; then report yes "$1"; else report no "$1"; fi; }

# write FILE TEXT: makes the file and its folders, unless it is as it should be.
write() {
    is_written "$1" "$2" && return
    mkdir -p "$(dirname "$root$1")"
    printf '%s\n' "$2" >"$root$1"
}

# remove FILE: takes a file back, and the folders of its service that are empty then.
remove() {
    rm -f "$root$1"
    case $1 in
    "$units"/*.d/*) rmdir "$(dirname "$root$1")" 2>/dev/null || true ;;
    esac
}

reload_systemd() {
    if live && [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
}

# Whether this kernel loads modules; another has built in what it has.
has_modules() { [ -e /proc/modules ]; }

# Whether the kernel has a module, loaded or built in.
has_module() {
    [ -d "/sys/module/${1//-/_}" ] ||
        grep -qs "/${1//[-_]/[-_]}\.ko$" "/lib/modules/$(uname -r)/modules.builtin"
}

# load MODULE...: loads them, on this machine.
load() {
    local module
    if ! live || ! has_modules; then return 0; fi
    for module; do
        if has_module "$module"; then continue; fi
        case $module in
        siw) modprobe siw || stop "this kernel has no module siw; Debian leaves it out of all its kernels" ;;
        *) modprobe "$module" || stop "this kernel has no module $module; on Debian it is in linux-image-amd64, not in the cloud kernels" ;;
        esac
    done
}

report_modules() {
    local module
    live || return 0
    if ! has_modules; then
        note "this kernel loads no modules: it has $* built in, or not at all"
        return 0
    fi
    for module; do
        if has_module "$module"; then
            report yes "module $module"
        else
            report no "module $module (modprobe $module)"
        fi
    done
}

# A service that does something at each boot: the link by which it is wanted.
wanted() { echo "$units/multi-user.target.wants/$1"; }

# enable SERVICE [UNIT]: has it started at each boot; UNIT is its file where the service is one of many.
enable() {
    local link
    link=$(wanted "$1")
    [ ! -L "$root$link" ] || return 0
    mkdir -p "$(dirname "$root$link")"
    ln -s "$units/${2-$1}" "$root$link"
    reload_systemd
}

report_enabled() {
    if [ -L "$root$(wanted "$1")" ]; then
        report yes "service $1 at each boot"
    else
        report no "service $1 at each boot"
    fi
}

disable() { rm -f "$root$(wanted "$1")"; }

# boot_service SERVICE DESCRIPTION COMMAND...: the unit of a service that runs the commands at boot.
boot_service() {
    local description=$1 command
    shift
    printf '[Unit]\nDescription=%s\nWants=network-online.target\n' "$description"
    printf 'After=network-online.target sys-kernel-config.mount rdma-hw.target\n'
    printf '\n[Service]\nType=oneshot\nRemainAfterExit=yes\n'
    for command; do printf 'ExecStart=%s\n' "$command"; done
    printf '\n[Install]\nWantedBy=multi-user.target'
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
